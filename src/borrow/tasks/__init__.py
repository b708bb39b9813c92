"""Where the rows of tasks lie, and how a sum over tasks is taken: here, over processes, on a Dask cluster."""
