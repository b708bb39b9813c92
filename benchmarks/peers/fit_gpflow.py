"""One default fit of GPflow's coregionalised GP in a fresh process: see benchmarks/multitask.py.

`Coregion` starts with all columns of W equal, and they would stay equal; W starts at random here, as GPy's does.
"""

import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
begun = time.process_time()
import gpflow
import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
imported = time.process_time() - begun
data = np.load(sys.argv[1])
X, y, task = data["X"], data["y"], data["task"]
M, d = int(task.max()) + 1, X.shape[1]
rng = np.random.default_rng(int(data["seed"]))

start = time.perf_counter(), time.process_time()
rbf = gpflow.kernels.SquaredExponential(lengthscales=np.ones(d), active_dims=range(d))
gpflow.set_trainable(rbf.variance, False)
coregion = gpflow.kernels.Coregion(output_dim=M, rank=M, active_dims=[d])
coregion.W.assign(0.5 * rng.normal(size=(M, M)) / np.sqrt(M))
model = gpflow.models.GPR((np.column_stack([X, task]), y[:, None]), kernel=rbf * coregion)
result = gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables)
seconds = time.perf_counter() - start[0], time.process_time() - start[1]

found = {
    "wall": seconds[0],
    "seconds": seconds[1],
    "import": imported,
    "evaluations": int(result.nfev),
    "log likelihood": float(model.log_marginal_likelihood()),
    "lengthscale": rbf.lengthscales.numpy().tolist(),
    "B": coregion.output_covariance().numpy().tolist(),
    "noise": float(model.likelihood.variance.numpy()),
    "mean": 0.0,
    "version": {"gpflow": gpflow.__version__, "tensorflow": tf.__version__, "numpy": np.__version__},
}
sys.stdout.write(json.dumps(found) + "\n")
