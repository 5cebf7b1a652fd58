# Sourced by launch.sh and node.sh. What is exported here has to be the same on every node,
# and there before Ray starts: Ray's workers inherit it from their node, not from the
# program that asks for them.
#
#   TOOL_MATH_MODEL   a folder, or a name on the hub
#   TOOL_MATH_RUNS    where data, logs and checkpoints go; with several nodes, a folder that
#                     all of them see, and nobody else
scale_out=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export TOOL_MATH_CODE=${scale_out%/*}
export TOOL_MATH_MODEL=${TOOL_MATH_MODEL:-Qwen/Qwen3-1.7B}
export TOOL_MATH_RUNS=${TOOL_MATH_RUNS:-$PWD/runs}
export TOOL_MATH_DATA=$TOOL_MATH_RUNS/data
export VERL_FILE_LOGGER_ROOT=$TOOL_MATH_RUNS
export PYTHONPATH=$TOOL_MATH_CODE:${TOOL_MATH_CODE%/*/*}${PYTHONPATH:+:$PYTHONPATH}
export RAY_USAGE_STATS_ENABLED=0
mkdir -p "$TOOL_MATH_RUNS"

# Only who knows a cluster's token may join it. node.sh head makes one.
token=$TOOL_MATH_RUNS/ray_token
use_token() { export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$token; }
