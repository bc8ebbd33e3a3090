// SPDX-License-Identifier: MIT
// Checks of the programs of a job.
#include "program_check.hh"

#include <elf.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "messages.hh"

namespace storm::tools {

namespace {

bool is_mpi_library(std::string_view name) {
    for (const char *start : {"libmpi.so", "libmpi_", "libmpi++", "libmpich", "libfmpich", "libmpicxx.so",
                              "libmpifort.so", "libopen-rte.so", "libopen-pal.so", "liboshmem.so"}) {
        if (name.starts_with(start)) return true;
    }
    return false;
}

// The name of an MPI that is not Open MPI; empty for Open MPI and for no MPI.
// libmpi.so.12 is MPICH's common ABI, but Open MPI 1.10 had that number too: that one
// brings libopen-pal along.
std::string foreign_mpi(std::string_view name, bool with_open_pal) {
    struct Foreign {
        std::string_view start;
        const char *mpi;
    };
    static constexpr Foreign foreign[] = {
        {"libmpich", "MPICH"},
        {"libfmpich", "MPICH"},
        {"libmpifort.so", "MPICH or an MPI derived from it"},
        {"libmpicxx.so", "MPICH or an MPI derived from it"},
        {"libmpi_cray", "Cray MPICH"},
        {"libmpi_gnu", "Cray MPICH"},
        {"libmpi_intel", "Cray MPICH"},
        {"libmpi_nvidia", "Cray MPICH"},
        {"libmpi_amd", "Cray MPICH"},
        {"libmpi_mt.so", "Intel MPI"},
        {"libmpi_ilp64.so", "Intel MPI"},
        {"libmpi_ibm", "IBM Spectrum MPI"},
        {"libmpt.so", "HPE MPT"},
        {"libpcmpi.so", "Platform MPI"},
        {"libmpi_abi.so", "the MPI standard ABI"},
        {"libmpitrampoline.so", "MPItrampoline"},
    };
    for (const auto &entry : foreign) {
        if (name.starts_with(entry.start)) return entry.mpi;
    }
    if (!with_open_pal && (name == "libmpi.so.12" || name.starts_with("libmpi.so.12.")))
        return "MPICH or an MPI derived from it";
    if (!with_open_pal && name == "libmpi.so.4") return "Intel MPI";
    return {};
}

// Does the kernel make this a secure execution, for which the loader ignores preloads?
std::string privilege_of(const std::string &path) {
    struct stat about {};
    struct statvfs mount {};
    if (stat(path.c_str(), &about) != 0 || statvfs(path.c_str(), &mount) != 0) return {};
    if ((mount.f_flag & ST_NOSUID) != 0) return {};
    if ((about.st_mode & S_ISUID) != 0 && about.st_uid != getuid()) return "set-uid";
    if ((about.st_mode & S_ISGID) != 0 && (about.st_mode & S_IXGRP) != 0 && about.st_gid != getgid())
        return "set-gid";
    if (geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
        return "privileged by file capabilities";
    return {};
}

bool is_loader(const ElfFile &elf) {
    return elf.soname.starts_with("ld-linux") || elf.soname.starts_with("ld64.so") ||
           elf.soname.starts_with("ld-musl") || elf.soname.starts_with("libc.musl");
}

// mpirun itself prepends PREFIX/lib to LD_LIBRARY_PATH, also on this machine, when it
// has --prefix or is called by its full path.
std::string with_prefix_libraries(const AppContext &context, const std::string &launcher, std::string library_path) {
    std::string prefix = context.value_of({"prefix"}).value_or("");
    if (prefix.empty() && launcher.starts_with('/')) prefix = directory_of(directory_of(launcher));
    if (prefix.empty()) prefix = environment("OPAL_PREFIX").value_or("");
    if (prefix.empty()) return library_path;
    std::string extended = prefix + "/lib:" + prefix + "/lib64";
    if (!library_path.empty()) extended += ":" + library_path;
    return extended;
}

const NeededLibrary *missing_mpi(const std::vector<NeededLibrary> &libraries) {
    for (const auto &library : libraries) {
        if (library.path.empty() && is_mpi_library(library.name)) return &library;
    }
    return nullptr;
}

// A problem that is certain on this machine, but not if the program runs on others.
void refuse_unless_elsewhere(const Job &job, const std::string &problem, const std::string &advice) {
    if (!job.elsewhere) stop(exit_usage, problem + ": " + advice);
    say("warning: " + problem + ": if the machines of the job lack it too, " + advice);
}

void check_libraries(const Job &job, const std::string &launcher, const AppContext &context,
                     const std::string &path, const ElfFile &elf, Checked &checked) {
    const std::string &name = context.program_name();
    const std::string library_path = job.variable(context, "LD_LIBRARY_PATH");
    auto libraries = list_needed(path, elf.interpreter, library_path);
    if (missing_mpi(libraries) != nullptr)
        libraries = list_needed(path, elf.interpreter, with_prefix_libraries(context, launcher, library_path));
    if (const NeededLibrary *missing = missing_mpi(libraries)) {
        refuse_unless_elsewhere(job, name + " cannot start (it needs " + missing->name + ", which is not found)",
                                "load the MPI module it was built with, or set LD_LIBRARY_PATH");
        return;
    }
    const bool with_open_pal = std::any_of(libraries.begin(), libraries.end(), [](const NeededLibrary &library) {
        return library.name.starts_with("libopen-pal.so");
    });
    checked.open_mpi = with_open_pal;
    for (const auto &library : libraries) {
        if (is_sanitizer(library.name) && checked.sanitizer.empty()) checked.sanitizer = library.path;
        const std::string mpi = foreign_mpi(library.name, with_open_pal);
        if (!mpi.empty() && checked.native.empty())
            checked.native = name + " is built for " + mpi + " (it needs " + library.name +
                             "), which is not served: the job runs native; build it with Open MPI to use storm";
    }
}

}  // namespace

bool is_sanitizer(std::string_view name) {
    return name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan");
}

Checked check_program(const Job &job, const std::string &launcher, const ElfFile &library, const AppContext &context) {
    Checked checked;
    const std::string &name = context.program_name();
    const FoundProgram found = find_program(context, name, job.variable(context, "PATH"));
    if (found.path.empty()) {
        refuse_unless_elsewhere(job,
                                "program " + name + " cannot be run (" +
                                    (found.exists_unexecutable ? "it is not executable"
                                     : name.find('/') == std::string::npos
                                         ? "not found in PATH or the working directory"
                                         : "there is no such file") +
                                    ")",
                                "correct its name, or the launcher's options before it");
        return checked;
    }
    const ElfFile elf = read_elf(found.path);
    if (elf.kind != ElfFile::Kind::Elf) return checked;
    if (!elf.same_machine(library))
        stop(exit_usage, "a preload cannot work for " + name + " (it is " + elf.machine_name() +
                             ", libstorm.so is " + library.machine_name() + "): build it for " +
                             library.machine_name() + ", or use --off");
    if (elf.interpreter.empty()) {
        // The dynamic loader called by name is no static program.
        if (is_loader(elf)) return checked;
        stop(exit_usage, "a preload cannot work for " + name + " (it is statically linked): relink it "
                         "dynamically, or use --off");
    }
    if (const std::string privilege = privilege_of(found.path); !privilege.empty()) {
        checked.native = "warning: " + name + " is " + privilege +
                         " (the loader ignores preloads for such programs): the job will run native";
        return checked;
    }
    if (!exists(elf.interpreter)) {
        refuse_unless_elsewhere(job, name + " cannot start (its loader " + elf.interpreter + " does not exist)",
                                "build it for this system");
        return checked;
    }
    check_libraries(job, launcher, context, found.path, elf, checked);
    return checked;
}

}  // namespace storm::tools
