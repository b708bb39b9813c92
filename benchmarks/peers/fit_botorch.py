"""One default fit of BoTorch's MultiTaskGP in a fresh process: see benchmarks/multitask.py.

Its defaults are another model: priors on lengthscales, noise and task correlations, correlations above zero, one noise
and one mean a task. Hyper-parameters are given back in the units of y.
"""

import json
import sys
import time
import warnings

warnings.simplefilter("ignore")
begun = time.process_time()
import botorch
import gpytorch
import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import MultiTaskGP

torch.set_num_threads(1)
imported = time.process_time() - begun
data = np.load(sys.argv[1])
X, y, task = data["X"], data["y"], data["task"]
M = int(task.max()) + 1
torch.manual_seed(int(data["seed"]))
train_X = torch.tensor(np.column_stack([X, task]), dtype=torch.double)
train_Y = torch.tensor(y[:, None], dtype=torch.double)

start = time.perf_counter(), time.process_time()
model = MultiTaskGP(train_X, train_Y, task_feature=-1)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
fit_gpytorch_mll(mll)
seconds = time.perf_counter() - start[0], time.process_time() - start[1]

model.train()
with torch.no_grad():
    center, scale = (float(v.squeeze()) for v in (model.outcome_transform.means, model.outcome_transform.stdvs))
    kx, kf = model.covar_module.kernels
    at_task = torch.zeros(M, X.shape[1] + 1, dtype=torch.double)
    at_task[:, -1] = torch.arange(M)
    mean = model(*model.train_inputs).mean.numpy()
    noise = model.likelihood.noise.numpy().ravel()
    with gpytorch.settings.fast_computations(log_prob=False):
        plain = model.likelihood(model(*model.train_inputs), *model.train_inputs).log_prob(model.train_targets)
found = {
    "wall": seconds[0],
    "seconds": seconds[1],
    "import": imported,
    "evaluations": None,
    "log likelihood": float(plain) - len(y) * float(np.log(scale)),
    "lengthscale": kx.lengthscale.detach().numpy().ravel().tolist(),
    "B": (scale**2 * kf.covar_matrix.detach().numpy()).tolist(),
    "noise": (scale**2 * noise).tolist(),
    "mean": (center + scale * mean).tolist(),
    "version": {
        "botorch": botorch.__version__,
        "gpytorch": gpytorch.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
    },
}
sys.stdout.write(json.dumps(found) + "\n")
