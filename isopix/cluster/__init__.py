"""Jobs on clusters: submission to SLURM, requeues, and the ranks of a job."""
