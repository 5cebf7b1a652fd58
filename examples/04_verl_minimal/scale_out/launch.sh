#!/usr/bin/env bash
# Starts verl's trainer with a config of this folder; overrides may follow its name.
#
#   TOOL_MATH_MODEL=Qwen/Qwen3-1.7B bash launch.sh one_node
#   bash launch.sh several_nodes trainer.nnodes=4
set -euo pipefail
config=${1:?one_node or several_nodes}
source "$(dirname "$0")/environment.sh"
[[ ! -e $token ]] || use_token
[[ -e $TOOL_MATH_DATA ]] || python3 "$TOOL_MATH_CODE/make_data.py" "$TOOL_MATH_DATA"
exec python3 -m verl.trainer.main_ppo \
    --config-path "$scale_out" --config-name "$config" "${@:2}"
