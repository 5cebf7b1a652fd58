#!/usr/bin/env bash
# One machine with eight GPUs: training and sampling take turns on all of them.
#
#     bash examples/05_openrlhf_agent/scale_out/one_gpu_node.sh
#
# With --flags it prints its flags, one a line, and starts nothing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

flags=(
    "${common[@]}"
    --actor.num_nodes 1
    --actor.num_gpus_per_node 8
    --vllm.num_engines 8
    --vllm.tensor_parallel_size 1
    --vllm.gpu_memory_utilization 0.6
    --train.colocate_all
    --vllm.enable_sleep
    --ds.enable_sleep
    --rollout.batch_size 32
    --rollout.n_samples_per_prompt 8
    --train.batch_size 256
)

if [ "${1:-}" = --flags ]; then
    printf '%s\n' "${flags[@]}"
    exit
fi
python3 "$here/make_data.py" "$runs" --system
exec python3 -m openrlhf.cli.train_ppo_ray "${flags[@]}" "$@"
