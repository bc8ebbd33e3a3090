// SPDX-License-Identifier: MIT
// ELF headers by pread, library lists by the program's own loader in listing mode.
#include "elf_file.hh"

#include "words.hh"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace storm::tools {

namespace {

constexpr std::size_t interpreter_bytes_max = 4096;
constexpr std::size_t dynamic_bytes_max = std::size_t{1} << 20;
constexpr std::size_t headers_max = 4096;

class Fd {
  public:
    explicit Fd(int fd) : fd_(fd) {}
    Fd(const Fd &) = delete;
    Fd &operator=(const Fd &) = delete;
    ~Fd() {
        if (fd_ >= 0) close(fd_);
    }
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

bool read_at(int fd, void *to, std::size_t bytes, std::uint64_t offset) {
    auto *at = static_cast<char *>(to);
    while (bytes > 0) {
        const ssize_t got = pread(fd, at, bytes, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        bytes -= static_cast<std::size_t>(got);
        offset += static_cast<std::uint64_t>(got);
    }
    return true;
}

// File offset of a virtual address; ~0 if no segment holds it.
std::uint64_t offset_of(const std::vector<ElfW(Phdr)> &headers, std::uint64_t address) {
    for (const auto &header : headers) {
        if (header.p_type == PT_LOAD && address >= header.p_vaddr &&
            address - header.p_vaddr < header.p_filesz)
            return header.p_offset + (address - header.p_vaddr);
    }
    return ~std::uint64_t{0};
}

std::string read_soname(int fd, const std::vector<ElfW(Phdr)> &headers, const ElfW(Phdr) & dynamic) {
    if (dynamic.p_filesz > dynamic_bytes_max) return {};
    std::vector<ElfW(Dyn)> entries(dynamic.p_filesz / sizeof(ElfW(Dyn)));
    if (!read_at(fd, entries.data(), entries.size() * sizeof(ElfW(Dyn)), dynamic.p_offset)) return {};

    std::uint64_t names = 0;
    std::uint64_t soname = ~std::uint64_t{0};
    for (const auto &entry : entries) {
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag == DT_STRTAB) names = entry.d_un.d_ptr;
        if (entry.d_tag == DT_SONAME) soname = entry.d_un.d_val;
    }
    const std::uint64_t base = offset_of(headers, names);
    if (soname == ~std::uint64_t{0} || base == ~std::uint64_t{0}) return {};

    std::string name;
    for (char c = 0; name.size() < interpreter_bytes_max; name += c) {
        if (!read_at(fd, &c, 1, base + soname + name.size()) || c == 0) break;
    }
    return name;
}

// Only for a file of the machine this code runs on.
void read_segments(int fd, ElfFile &file) {
    ElfW(Ehdr) header;
    if (!read_at(fd, &header, sizeof header, 0)) return;
    if (header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phnum > headers_max) return;

    std::vector<ElfW(Phdr)> headers(header.e_phnum);
    if (!read_at(fd, headers.data(), headers.size() * sizeof(ElfW(Phdr)), header.e_phoff)) return;

    for (const auto &segment : headers) {
        if (segment.p_type == PT_INTERP && segment.p_filesz <= interpreter_bytes_max) {
            std::string text(segment.p_filesz, '\0');
            if (read_at(fd, text.data(), text.size(), segment.p_offset)) file.interpreter = text.c_str();
        }
        if (segment.p_type == PT_DYNAMIC) file.soname = read_soname(fd, headers, segment);
    }
}

// glibc's loaders also list what is missing when traced by environment, as ldd
// does; any other loader is only ever given --list, so that it cannot take the
// command line for an order to run the program.
bool is_glibc_loader(std::string_view interpreter) {
    const std::string_view name = base_name(interpreter);
    return name.starts_with("ld-linux") || name.starts_with("ld64.so");
}

[[noreturn]] void exec_loader(const std::string &program, const std::string &interpreter,
                              const std::string &library_path, int to) {
    for (const char *name : {"LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "LD_DEBUG_OUTPUT", "LD_BIND_NOW", "LD_WARN"})
        unsetenv(name);
    if (library_path.empty()) {
        unsetenv("LD_LIBRARY_PATH");
    } else {
        setenv("LD_LIBRARY_PATH", library_path.c_str(), 1);
    }
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(to, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    if (is_glibc_loader(interpreter)) {
        setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
        execl(interpreter.c_str(), interpreter.c_str(), program.c_str(), nullptr);
    } else {
        execl(interpreter.c_str(), interpreter.c_str(), "--list", program.c_str(), nullptr);
    }
    _exit(127);
}

std::string output_of_loader(const std::string &program, const std::string &interpreter,
                             const std::string &library_path) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return {};
    const pid_t child = fork();
    if (child == 0) exec_loader(program, interpreter, library_path, ends[1]);
    close(ends[1]);
    const Fd from(ends[0]);
    if (child < 0) return {};

    std::string text;
    char buffer[4096];
    for (;;) {
        const ssize_t got = read(from.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(buffer, static_cast<std::size_t>(got));
    }
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return text;
}

}  // namespace

std::string ElfFile::machine_name() const {
    std::string name = bits == ELFCLASS32 ? "32-bit " : "64-bit ";
    switch (machine) {
    case EM_386: return name + "x86";
    case EM_X86_64: return name + (bits == ELFCLASS32 ? "x32" : "x86-64");
    case EM_ARM: return name + "Arm";
    case EM_AARCH64: return name + "Arm (AArch64)";
    case EM_PPC: return name + "PowerPC";
    case EM_PPC64: return name + (order == ELFDATA2LSB ? "PowerPC (little endian)" : "PowerPC (big endian)");
    case EM_RISCV: return name + "RISC-V";
    case EM_S390: return name + "S/390";
    case EM_MIPS: return name + "MIPS";
    default: return name + "ELF machine " + std::to_string(machine);
    }
}

ElfFile read_elf(const std::string &path) {
    ElfFile file;
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return file;

    // The first 20 bytes have one layout in every class: e_ident, e_type, e_machine.
    unsigned char head[20] = {};
    const ssize_t got = pread(fd.get(), head, sizeof head, 0);
    if (got < 0) return file;
    file.kind = ElfFile::Kind::Other;
    if (got >= 2 && head[0] == '#' && head[1] == '!') file.kind = ElfFile::Kind::Script;
    if (got < static_cast<ssize_t>(sizeof head) || std::memcmp(head, ELFMAG, SELFMAG) != 0) return file;

    file.kind = ElfFile::Kind::Elf;
    file.bits = head[EI_CLASS];
    file.order = head[EI_DATA];
    const unsigned low = file.order == ELFDATA2MSB ? 1 : 0;
    const unsigned high = 1 - low;
    file.type = static_cast<std::uint16_t>(head[16 + low] | (head[16 + high] << 8));
    file.machine = static_cast<std::uint16_t>(head[18 + low] | (head[18 + high] << 8));

    constexpr unsigned char own_bits = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    constexpr unsigned char own_order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    if (file.bits == own_bits && file.order == own_order) read_segments(fd.get(), file);
    return file;
}

std::vector<NeededLibrary> list_needed(const std::string &program, const std::string &interpreter,
                                       const std::string &library_path) {
    // Lines: "\tNAME => PATH (0x...)", "\tNAME => not found", "\tPATH (0x...)".
    std::vector<NeededLibrary> needed;
    const std::string text = output_of_loader(program, interpreter, library_path);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = std::string_view(text).substr(at, end - at);
        at = end + 1;
        if (!line.starts_with('\t')) continue;

        NeededLibrary library;
        const std::size_t arrow = line.find(" => ");
        std::string_view name = line.substr(1, arrow == std::string_view::npos ? arrow : arrow - 1);
        std::string_view path = arrow == std::string_view::npos ? name : line.substr(arrow + 4);
        if (arrow == std::string_view::npos) name = name.substr(0, name.rfind(" (0x"));
        library.name = base_name(name);
        if (path != "not found") library.path = path.substr(0, path.rfind(" (0x"));
        needed.push_back(std::move(library));
    }
    return needed;
}

}  // namespace storm::tools
