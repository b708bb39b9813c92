"""Past exactness: rows against seconds and against the log density of new rows, exact beside approximate, on one GPU.

    python benchmarks/approximations.py              every line, each in a process of its own; needs one CUDA GPU
    python benchmarks/approximations.py --write      the same, and docs/results/approximations.json
    python benchmarks/approximations.py --line IVM --rows 600 --cpu    one line, small, by the same code on the CPU

The tables of `gpu_fits.py`: ten tasks, eight inputs, all rows distinct. Ours: exact; rank 2 with 500 inducing inputs
(FITC); 1,000 rows chosen by the IVM. Peers, where GPyTorch is installed, with the same covariance of rank 2: its sparse
regression (`InducingPointKernel`: Titsias's variational bound, VFE) by 150 steps of Adam, and its stochastic
variational GP (SVGP) by 30 passes in batches of 1,024, at least 1,500 steps, or as many as a minute allows; both
with 500 inducing inputs that are rows of the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

import gpu_fits
from gpu_fits import Line, Table, ours, ten_tasks

INDUCING, ACTIVE, BATCH, PASSES, LEAST, STEPS = 500, 1000, 1024, 30, 1500, 150
#: Rows of the fit that loads libraries; seconds that a search may take, and that one.
SMALL, LIMIT, SMALL_LIMIT = 600, 60.0, 3.0


def place() -> str:
    """Where the peers' tensors lie."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def joined(X: np.ndarray, task: np.ndarray) -> torch.Tensor:
    """Inputs with the number of the task as the last column."""
    return torch.tensor(np.column_stack([X, task]), dtype=torch.double, device=place())


def of_rank_two() -> torch.nn.Module:
    """k(x, x') times a covariance of tasks of rank 2 and a diagonal, as GPyTorch writes it."""
    from gpytorch.kernels import IndexKernel, RBFKernel

    inputs = RBFKernel(ard_num_dims=gpu_fits.COLUMNS, active_dims=tuple(range(gpu_fits.COLUMNS)))
    return inputs * IndexKernel(num_tasks=gpu_fits.TASKS, rank=2, active_dims=(gpu_fits.COLUMNS,))


def some_rows(rows: torch.Tensor) -> torch.Tensor:
    """Rows of the table that stand as inducing inputs."""
    torch.manual_seed(gpu_fits.SEED)
    return rows[torch.randperm(len(rows))[: min(INDUCING, len(rows))].to(rows.device)]


def told(model: torch.nn.Module, likelihood: torch.nn.Module, new: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of new measurements."""
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        answer = likelihood(model(new))
        return answer.mean.cpu().numpy(), answer.variance.sqrt().cpu().numpy()


def climb(module: torch.nn.Module, loss: Callable[[], torch.Tensor], rate: float, steps: int, limit: float) -> dict:
    """So many steps of Adam, or as many as the seconds allow; how many were taken of how many."""
    optimiser = torch.optim.Adam([p for p in module.parameters() if p.requires_grad], lr=rate)
    began, taken = time.perf_counter(), 0
    while taken < steps and time.perf_counter() - began < limit:
        optimiser.zero_grad()
        float(value := loss())  # waits for the GPU, so that the clock is right
        value.backward()
        optimiser.step()
        taken += 1
    return {"steps": taken, "of": steps}


def seconds_for(table: Table) -> float:
    """The limit of a search on this table."""
    return LIMIT if len(table[1]) > SMALL else SMALL_LIMIT


def sparse_regression(table: Table, X: np.ndarray, task: np.ndarray) -> tuple[dict, Callable]:
    """GPyTorch's regression with inducing inputs by the variational bound."""
    import gpytorch

    rows, y = joined(table[0], table[2]), torch.tensor(table[1], device=place())

    class Sparse(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(rows, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.InducingPointKernel(of_rank_two(), some_rows(rows), likelihood)
            self.covar_module.inducing_points.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double().to(place())
    model = Sparse().double().to(place())
    bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    found = climb(model, lambda: -bound(model(rows), y), 0.1, STEPS, seconds_for(table))
    return found, lambda: told(model, likelihood, joined(X, task))


def stochastic(table: Table, X: np.ndarray, task: np.ndarray) -> tuple[dict, Callable]:
    """GPyTorch's stochastic variational GP."""
    import gpytorch
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    rows, y = joined(table[0], table[2]), torch.tensor(table[1], device=place())

    class Stochastic(gpytorch.models.ApproximateGP):
        def __init__(self, Z: torch.Tensor) -> None:
            distribution = CholeskyVariationalDistribution(len(Z))
            super().__init__(VariationalStrategy(self, Z, distribution, learn_inducing_locations=False))
            self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), of_rank_two()

        def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double().to(place())
    model = Stochastic(some_rows(rows)).double().to(place())
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    both = torch.nn.ModuleList([model, likelihood])

    def loss() -> torch.Tensor:
        at = torch.randint(len(y), (min(BATCH, len(y)),), device=y.device)
        return -bound(model(rows[at]), y[at])

    found = climb(both, loss, 0.02, max(LEAST, PASSES * -(-len(y) // BATCH)), seconds_for(table))
    return found, lambda: told(model, likelihood, joined(X, task))


SIZES = (6_000, 12_000, 24_000, 100_000)
LINES: dict[str, Line] = {
    "exact": (ours("MultiTaskGPRegressor"), ten_tasks, SIZES[:3], SMALL),
    "low rank (FITC)": (ours("MultiTaskGPRegressor", rank=2, inducing=INDUCING), ten_tasks, SIZES, SMALL),
    "IVM": (ours("MultiTaskIVMRegressor", n_active=ACTIVE), ten_tasks, SIZES, SMALL),
    "GPyTorch, VFE": (sparse_regression, ten_tasks, SIZES, SMALL),
    "GPyTorch, SVGP": (stochastic, ten_tasks, SIZES, SMALL),
}

if __name__ == "__main__":
    gpu_fits.main(lines=LINES, program=__file__, name="approximations", about=__doc__)
