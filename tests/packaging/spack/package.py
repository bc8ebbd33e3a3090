# SPDX-License-Identifier: MIT
from spack.package import *


class Storm(MesonPackage):
    """Shim for MPI programs with very many small messages: preloaded into an unmodified
    program of Open MPI, it moves point-to-point messages through rings in shared memory."""

    git = "https://example.org/storm.git"

    license("MIT")

    version("0.1.0", tag="v0.1.0")
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3:", type="build")
    depends_on("openmpi@4", type=("build", "link", "run"))
    depends_on("pmix@4:", type="build")
    depends_on("hwloc@2:2", type=("build", "run"))

    requires("%gcc@12:", "%clang@15:", policy="one_of", msg="STORM is written in C++20")

    def meson_args(self):
        return ["-Dtests=false", "-Dbench=false", "-Dmpi_tests=false"]

    def setup_run_environment(self, env):
        # the plugin that knows hwloc loads it by its name
        env.append_path("LD_LIBRARY_PATH", self.spec["hwloc"].prefix.lib)
