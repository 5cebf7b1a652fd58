#!/usr/bin/env bash
# A cluster of Ray: two nodes of eight GPUs train, and the same GPUs sample.
# The checkout and TOOL_MATH_RUNS stand at the same paths on every node.
#
#     ray start --head --port 6379                       on the head
#     ray start --address "$HEAD:6379"                   on every other node
#     bash examples/05_openrlhf_agent/scale_out/ray_cluster.sh      on the head
#
# With --flags it prints its flags, one a line, and submits nothing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

flags=(
    "${common[@]}"
    --actor.num_nodes 2
    --actor.num_gpus_per_node 8
    --vllm.num_engines 8
    --vllm.tensor_parallel_size 2
    --vllm.gpu_memory_utilization 0.6
    --train.colocate_all
    --vllm.enable_sleep
    --ds.enable_sleep
    --rollout.batch_size 32
    --rollout.n_samples_per_prompt 16
    --train.batch_size 512
)

if [ "${1:-}" = --flags ]; then
    printf '%s\n' "${flags[@]}"
    exit
fi
python3 "$here/make_data.py" "$runs" --system
variables="\"PYTHONPATH\": \"$PYTHONPATH\", \"TOOL_MATH_REWARD\": \"$TOOL_MATH_REWARD\""
exec ray job submit --address http://127.0.0.1:8265 \
    --runtime-env-json "{\"env_vars\": {$variables}}" \
    -- python3 -m openrlhf.cli.train_ppo_ray "${flags[@]}" "$@"
