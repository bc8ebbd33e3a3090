// SPDX-License-Identifier: MIT
// The job that the command line describes: its application contexts, wherever they
// are written, and what will be in the environment of its programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch_line.hh"
#include "words.hh"

namespace storm::tools {

struct Job {
    Kind kind = Kind::open_mpi;
    std::vector<AppContext> contexts;  // of the command line
    std::vector<AppContext> lines;     // of the --app file, if there is one
    std::string app_file;
    Words tuned;                          // -x arguments of the tune files
    std::optional<std::string> env_list;  // the MCA parameter mca_base_env_list
    char env_delimiter = ';';
    bool elsewhere = false;  // its programs may run on other machines than this one

    [[nodiscard]] bool has_app_file() const { return !app_file.empty(); }
    // The contexts that mpirun will really start.
    [[nodiscard]] const std::vector<AppContext> &started() const { return has_app_file() ? lines : contexts; }
    [[nodiscard]] Words list_items() const;
    // A variable as the programs of this context will see it.
    [[nodiscard]] std::string variable(const AppContext &context, const char *name) const;
};

// Splits the words of the command line. Every context has a program, or it is a usage
// error and the end.
[[nodiscard]] Job read_job(const Words &words, Kind kind);

// Reads what the command line only names: application, tune and parameter files.
// `launcher` is the path of the mpirun whose parameter files count.
void read_job_files(Job &job, const std::string &launcher);

}  // namespace storm::tools
