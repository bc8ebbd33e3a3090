// SPDX-License-Identifier: MIT
// First aid for what is to be started: the launcher and the program.
#include "elf_file.hh"
#include "first_aid.hh"
#include "launchers.hh"
#include "messages.hh"
#include "program_check.hh"
#include "words.hh"

#include <algorithm>
#include <cstdio>

namespace storm::tools {

namespace {

// The first words like 4.1.4 in a text.
std::string version_in(const std::string &text) {
    constexpr const char *digits = "0123456789";
    for (std::size_t at = text.find_first_of(digits); at != std::string::npos; at = text.find_first_of(digits, at)) {
        const std::size_t end = std::min(text.find_first_not_of("0123456789.", at), text.size());
        if (text.substr(at, end - at).find('.') != std::string::npos) return text.substr(at, end - at);
        at = end;
    }
    return {};
}

std::string output_of(const std::string &command) {
    std::string out;
    FILE *pipe = popen((command + " 2>&1").c_str(), "re");
    if (pipe == nullptr) return out;
    char buffer[512];
    while (out.size() < 4096 && fgets(buffer, sizeof buffer, pipe) != nullptr) out += buffer;
    pclose(pipe);
    return out;
}

}  // namespace

Finding launcher_found(const std::string &mpi_version) {
    Finding found{"launcher", ""};
    found.trouble = "does not fit";
    std::string path;
    for (const auto &name : {environment("STORM_LAUNCHER").value_or("mpirun"), std::string("mpirun"),
                             std::string("mpiexec"), std::string("srun")})
        if (path.empty()) path = find_executable(name);
    if (path.empty()) {
        found.value = "none found (mpirun, mpiexec and srun are not in PATH)";
        found.enough = false;
        found.advice = "load an MPI module, or name the launcher in STORM_LAUNCHER";
        return found;
    }
    const Kind kind = kind_of(path);
    found.value = path + ", " + title(kind);
    if (kind == Kind::slurm) return found;
    std::string why;
    const std::string version =
        version_in(in_child([&] { return output_of(shell_quoted(path) + " --version"); }, why).value_or(""));
    if (!version.empty()) found.value += " " + version;
    const std::string library = version_in(mpi_version);
    if (kind == Kind::hydra) {
        found.enough = library.empty();
        found.advice = "programs of Open MPI need Open MPI's mpirun: load its module, or name it in STORM_LAUNCHER; "
                       "those of MPICH run native";
    } else if (!library.empty() && !version.empty() && library != version) {
        found.enough = false;
        found.advice = "libmpi.so.40 is of version " + library + ": load one MPI module only, and look at PATH and "
                       "LD_LIBRARY_PATH";
    }
    return found;
}

Finding program_found(const std::string &program, const std::string &library) {
    Finding found{"program " + program, "can be preloaded"};
    found.trouble = "cannot be served";
    Listener listener;
    try {
        const ElfFile elf = read_elf(library);
        if (elf.kind != ElfFile::Kind::Elf) {
            found.value = "not looked at (libstorm.so was not found)";
            return found;
        }
        Job job;
        job.contexts = split_contexts({"--", program}, Kind::open_mpi);
        const Checked checked = check_program(job, "mpirun", elf, job.contexts.front());
        if (checked.native.empty()) {
            if (!checked.open_mpi) found.advice = "it names no MPI library: it may be a script, or load one later";
            return found;
        }
        found.value = "runs native";
        found.advice = checked.native;
    } catch (const Stop &) {
        found.value = "is refused";
        found.advice = listener.heard;
    }
    found.enough = false;
    return found;
}

}  // namespace storm::tools
