#!/bin/bash
# Train on the GPUs of several machines by SLURM, without submitit:
#
#     sbatch slurm.sh runs/photos igpt.s --data photos
#
# Before the time limit the run is saved and the job requeued; SLURM requeues it after the failure of a machine
# and after a preemption; the same command then resumes the run.
#SBATCH --job-name=isopix
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log

out=$1
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=120 # seconds to save; older versions of torchrun leave 30

# At SLURM's signal to this script: the processes stop after the same step and save.
requeue() {
    scancel --signal=TERM "$SLURM_JOB_ID"
    wait "$step"
    scontrol requeue "$SLURM_JOB_ID"
}
trap requeue USR1

# One torchrun a machine starts a process for each of its GPUs. If one fails, all end.
srun --kill-on-bad-exit torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node="${DEVICES:-$SLURM_GPUS_ON_NODE}" \
    --rdzv-backend=c10d --rdzv-endpoint="$head:$port" --rdzv-id="$SLURM_JOB_ID" \
    -m isopix pretrain "${@:2}" --out "$out" &
step=$!
code=0
wait "$step" || code=$?
# In the grace time of a preemption, SLURM signals the processes, not this script. They have saved, but SLURM does
# not requeue a job that ends by itself.
if [ "$code" != 0 ] && [[ $(scontrol show job "$SLURM_JOB_ID") == *PreemptTime=[0-9]* ]]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
