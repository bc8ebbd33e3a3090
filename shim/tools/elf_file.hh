// SPDX-License-Identifier: MIT
// What stormrun must know of a program before it starts it: is it an ELF file of
// our kind, is it linked dynamically, and which shared libraries would it load.
// The program itself is never executed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace storm::tools {

struct ElfFile {
    enum class Kind {
        Unreadable,  // may still be executable
        Script,      // begins with #!
        Elf,
        Other,
    };

    Kind kind = Kind::Unreadable;
    std::uint8_t bits = 0;     // ELFCLASS32 or ELFCLASS64
    std::uint8_t order = 0;    // ELFDATA2LSB or ELFDATA2MSB
    std::uint16_t machine = 0; // EM_...
    std::uint16_t type = 0;    // ET_...
    std::string interpreter;   // PT_INTERP; empty: no loader, so no preload
    std::string soname;        // DT_SONAME

    // Could code of the other file be loaded into a process of this one?
    [[nodiscard]] bool same_machine(const ElfFile &other) const {
        return bits == other.bits && order == other.order && machine == other.machine;
    }
    // "64-bit x86-64", for messages.
    [[nodiscard]] std::string machine_name() const;
};

// Reads the headers; what lies beyond them is filled in only for a file of the
// machine that this code was built for. Never fails: see Kind.
[[nodiscard]] ElfFile read_elf(const std::string &path);

struct NeededLibrary {
    std::string name;  // as recorded, e.g. libmpi.so.40
    std::string path;  // empty: not found
};

// The libraries `program` would load, direct and indirect, by asking its own
// loader as ldd does, under the given LD_LIBRARY_PATH and without any preload.
// Empty when the loader gives no answer.
[[nodiscard]] std::vector<NeededLibrary> list_needed(const std::string &program,
                                                     const std::string &interpreter,
                                                     const std::string &library_path);

}  // namespace storm::tools
