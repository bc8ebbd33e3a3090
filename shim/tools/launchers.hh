// SPDX-License-Identifier: MIT
// The kinds of launchers: Open MPI's mpirun, Hydra (mpiexec of MPICH and Intel MPI) and
// Slurm's srun. What they have in common is `launcher options program arguments`, again
// after a `:`; which options there are, how many words each takes and how a variable
// reaches one program alone differs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "words.hh"

namespace storm::tools {

enum class Kind { open_mpi, hydra, slurm };

// By what the file is in the end, behind links; a launcher that is none of the others is
// taken for Open MPI's.
[[nodiscard]] Kind kind_of(const std::string &launcher_path);
[[nodiscard]] const char *title(Kind kind);  // "Open MPI's mpirun"

// How many values an option takes in words of their own; `name` is without its dashes.
// Nothing: this launcher, as we know it, has no such option.
[[nodiscard]] std::optional<unsigned> values_of(Kind kind, std::string_view name, bool two_dashes);

// Names of all options of a kind, with their dashes.
[[nodiscard]] Words option_names(Kind kind);

}  // namespace storm::tools
