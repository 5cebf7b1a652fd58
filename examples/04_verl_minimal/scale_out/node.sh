#!/usr/bin/env bash
# Makes this machine a node of the Ray cluster, before launch.sh several_nodes:
#
#   bash node.sh head                on one of them
#   bash node.sh 10.0.0.1:6379       on each other one, with the head's address
#
# The checkout has to stand at the same path on every node; see environment.sh.
set -euo pipefail
source "$(dirname "$0")/environment.sh"
use_token
if [[ ${1:?head, or the address of the head} == head ]]; then
    [[ -e $token ]] || (
        umask 077
        python3 -c "import secrets; print(secrets.token_hex(32), end='')" >"$token"
    )
    exec ray start --head --port=6379 --include-dashboard=false "${@:2}"
fi
exec ray start --address="$1" "${@:2}"
