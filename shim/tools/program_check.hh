// SPDX-License-Identifier: MIT
// Can a preload work for this program? Asked before the job starts, since the loader
// says nothing where it cannot, and a program that lacks its MPI dies obscurely.
#pragma once

#include <string>
#include <string_view>

#include "elf_file.hh"
#include "job.hh"

namespace storm::tools {

struct Checked {
    std::string sanitizer;  // address-sanitizer runtime, to be preloaded first
    std::string native;     // why the job cannot be ours; empty: it can
    bool open_mpi = false;  // it is built for Open MPI, for sure
};

// Ends with a message if a preload cannot work (static, another machine) or the
// program cannot start (not there, its MPI not found); the latter are only warnings
// if the job may run on other machines. `library` is the one to be preloaded,
// `launcher` the launcher's name as it will be called.
[[nodiscard]] Checked check_program(const Job &job, const std::string &launcher, const ElfFile &library,
                                    const AppContext &context);

[[nodiscard]] bool is_sanitizer(std::string_view library_name);

}  // namespace storm::tools
