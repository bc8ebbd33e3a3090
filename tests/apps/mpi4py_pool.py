# SPDX-License-Identifier: MIT
"""A pool of processes of mpi4py.futures: threads, pickled objects, MPI_THREAD_MULTIPLE."""

from mpi4py.futures import MPIPoolExecutor, as_completed


def work(n):
    return n, sum(i * i for i in range(n)), "x" * (n % 7000)


if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        for n, total, text in pool.map(work, range(0, 3000, 7), chunksize=3):
            assert total == (n - 1) * n * (2 * n - 1) // 6 and len(text) == n % 7000, n
        done = sum(future.result()[1] for future in as_completed([pool.submit(work, n) for n in range(200)]))
    print("pool", done)
