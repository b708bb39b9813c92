"""One default fit of GPy's coregionalised GP in a fresh process: see benchmarks/multitask.py."""

import json
import sys
import time
import warnings

warnings.simplefilter("ignore")
begun = time.process_time()
import GPy
import numpy as np

imported = time.process_time() - begun
data = np.load(sys.argv[1])
X, y, task = data["X"], data["y"], data["task"]
M, d = int(task.max()) + 1, X.shape[1]
np.random.seed(int(data["seed"]))  # noqa: NPY002 - GPy draws where K^f starts from NumPy's global state

start = time.perf_counter(), time.process_time()
rbf = GPy.kern.RBF(d, ARD=True, active_dims=range(d))
rbf.variance.fix(1.0, warning=False)
coregion = GPy.kern.Coregionalize(1, output_dim=M, rank=M, active_dims=[d])
model = GPy.models.GPRegression(np.column_stack([X, task]), y[:, None], rbf * coregion)
model.optimize()
seconds = time.perf_counter() - start[0], time.process_time() - start[1]

rbf, coregion = model.kern.parts  # copies of what was given
run = model.optimization_runs[-1]
found = {
    "wall": seconds[0],
    "seconds": seconds[1],
    "import": imported,
    "evaluations": int(run.funct_eval) if np.isscalar(run.funct_eval) else None,
    "log likelihood": float(np.squeeze(model.log_likelihood())),
    "lengthscale": np.asarray(rbf.lengthscale).tolist(),
    "B": np.asarray(coregion.B).tolist(),
    "noise": float(model.likelihood.variance[0]) + 1e-8,  # what GPy itself adds to every diagonal
    "mean": 0.0,
    "version": {"GPy": GPy.__version__, "numpy": np.__version__},
}
sys.stdout.write(json.dumps(found) + "\n")
