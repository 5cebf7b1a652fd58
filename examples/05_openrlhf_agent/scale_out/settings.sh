# What both runs share: sourced by one_gpu_node.sh and ray_cluster.sh.
# TOOL_MATH_MODEL is a model's name or folder, TOOL_MATH_RUNS a folder for data and results.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
root=$(cd "$here/../.." && pwd)
model=${TOOL_MATH_MODEL:-Qwen/Qwen3-1.7B}
runs=${TOOL_MATH_RUNS:-$root/runs/openrlhf}
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
export TOOL_MATH_REWARD=${TOOL_MATH_REWARD:-course}

# The agent, the data, the model.
common=(
    --train.agent_func_path "$here/agent_func.py"
    --actor.model_name_or_path "$model"
    --data.prompt_dataset "$runs/train.jsonl"
    --data.input_key input
    --data.label_key label
    --data.apply_chat_template
    --data.max_len 4096
    --eval.dataset "$runs/held_out.jsonl"
    --eval.steps 10
    --eval.n_samples_per_prompt 4
)

# The convention: the preset openrlhf. flags() in agentic_rl/bridges/openrlhf.py says it.
common+=(
    --algo.advantage.estimator group_norm
    --reward.clip_range -1000000000.0 1000000000.0
    --actor.policy_loss_type ppo
    --actor.loss_agg_mode token-mean
    --actor.eps_clip_low_high 0.2 0.2
    --algo.kl.init_coef 0
)

# The machine, as far as it is the same.
common+=(
    --train.num_episodes 20
    --train.max_epochs 1
    --train.micro_batch_size 4
    --rollout.micro_batch_size 8
    --actor.adam.lr 1e-6
    --actor.gradient_checkpointing_enable
    --ds.packing_samples
    --ds.zero_stage 3
    --vllm.enable_prefix_caching
    --vllm.sync_backend nccl
    --ckpt.save_steps 20
    --ckpt.max_num 2
    --ckpt.load_enable
    --ckpt.path "$runs/checkpoints"
    --ckpt.output_dir "$runs/model"
    --logger.tensorboard_dir "$runs/tensorboard"
)
