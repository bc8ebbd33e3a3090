// SPDX-License-Identifier: MIT
#include "verdict.hh"

#include <cstdio>
#include <cstring>
#include <ctime>

namespace storm::interpose {
namespace {

constexpr int kTag = 0x5354; // on MPI_COMM_WORLD, between ranks that are still in MPI_Init
constexpr const char* kAbsentKey = "storm.absent";

struct Word {
    int routed = 1;
    char reason[244] = "";
    char fabric[16] = "";
    char no_fabric[120] = "";

    void meet(const Word& other)
    {
        if (no_fabric[0] == '\0')
            std::memcpy(no_fabric, other.no_fabric, sizeof no_fabric);
        if (no_fabric[0] == '\0' && std::strncmp(fabric, other.fabric, sizeof fabric) != 0)
            std::snprintf(no_fabric, sizeof no_fabric, "not all ranks have one fabric: some %s, some %s",
                          fabric[0] != '\0' ? fabric : "none", other.fabric[0] != '\0' ? other.fabric : "none");
    }

    void object(const std::string& why)
    {
        if (routed != 0)
            std::snprintf(reason, sizeof reason, "%s", why.c_str());
        routed = 0;
    }
};

// version and settings: everything before the address
std::string terms(const std::string& presence)
{
    return presence.substr(0, presence.find('|'));
}

class Tree {
public:
    Tree(const RealMpi& real, Pmix& board, int rank, int size, const std::string& own, int seconds)
        : real_(real), board_(board), rank_(rank), size_(size), own_(own), seconds_(seconds)
    {
    }

    Verdict agree(const std::string& trouble, const std::string& fabric)
    {
        Word word;
        std::snprintf(word.fabric, sizeof word.fabric, "%s", fabric.c_str());
        if (!trouble.empty())
            word.object("rank " + std::to_string(rank_) + ": " + trouble);
        const int parent = rank_ == 0 ? -1 : (rank_ - 1) / 2;
        bool with_parent = parent >= 0 && there(parent, word);
        bool with_child[2] = {};
        for (int i = 0; i < 2; ++i)
            with_child[i] = child(i) < size_ && there(child(i), word);
        tell_absent();
        for (int i = 0; i < 2; ++i)
            if (with_child[i])
                with_child[i] = hear(child(i), word);
        if (with_parent) {
            say(parent, word);
            Word above;
            std::memcpy(above.fabric, word.fabric, sizeof above.fabric);
            with_parent = hear(parent, above);
            word = above;
            if (!with_parent)
                word.object("rank " + std::to_string(parent) + " did not answer");
        }
        for (int i = 0; i < 2; ++i)
            if (with_child[i])
                say(child(i), word);
        return {word.routed != 0, word.reason, word.routed == 0 && !with_parent && first(), word.no_fabric};
    }

private:
    int child(int i) const { return 2 * rank_ + 1 + i; }

    bool there(int other, Word& word)
    {
        std::string theirs;
        if (!board_.get(other, kPresenceKey, seconds_, theirs)) {
            absent_ += std::to_string(other) + ",";
            word.object("rank " + std::to_string(other) + " runs without it");
            return false;
        }
        if (terms(theirs) != terms(own_))
            word.object("rank " + std::to_string(other) + " has " + terms(theirs) + ", rank " +
                        std::to_string(rank_) + " has " + terms(own_));
        return true;
    }

    // A neighbour that we could not see may still see us and wait for our word.
    void tell_absent()
    {
        if (!absent_.empty())
            board_.put(kAbsentKey, "," + absent_);
    }

    void say(int other, const Word& word) const
    {
        real_.Send(&word, sizeof word, real_.byte, other, kTag, real_.comm_world);
    }

    // The word of a neighbour that is there; false when it took us for absent.
    bool hear(int other, Word& word) const
    {
        Word said;
        timespec start, now;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int asked = 0;;) {
            int flag = 0;
            real_.Iprobe(other, kTag, real_.comm_world, &flag, MPI_STATUS_IGNORE);
            if (flag != 0)
                break;
            clock_gettime(CLOCK_MONOTONIC, &now);
            std::string list;
            if (now.tv_sec - start.tv_sec > seconds_ * (asked + 1) + 2) {
                ++asked;
                if (board_.get(other, kAbsentKey, 1, list) &&
                    list.find("," + std::to_string(rank_) + ",") != std::string::npos) {
                    word.object("ranks " + std::to_string(rank_) + " and " + std::to_string(other) +
                                " could not see each other through PMIx");
                    return false;
                }
            }
            const timespec pause{0, 20000};
            nanosleep(&pause, nullptr);
        }
        real_.Recv(&said, sizeof said, real_.byte, other, kTag, real_.comm_world, MPI_STATUS_IGNORE);
        if (said.routed == 0)
            word.object(said.reason);
        word.meet(said);
        return true;
    }

    // Of several parts of a tree that lacks ranks, the one with the lowest rank speaks.
    bool first() const
    {
        constexpr int kAsked = 16; // a look-up of an absent rank takes its full time
        std::string theirs;
        for (int lower = 0; lower < rank_ && lower < kAsked; ++lower)
            if (absent_.find(std::to_string(lower) + ",") != 0 &&
                board_.get(lower, kPresenceKey, 1, theirs))
                return false;
        return true;
    }

    const RealMpi& real_;
    Pmix& board_;
    const int rank_, size_;
    const std::string own_;
    const int seconds_;
    std::string absent_;
};

} // namespace

std::string presence(const std::string& agreement, const std::string& address)
{
    return "STORM " STORM_VERSION " " + agreement + "|" + address;
}

std::string address_in(const std::string& presence)
{
    const std::size_t bar = presence.find('|');
    return bar == std::string::npos ? "" : presence.substr(bar + 1);
}

Verdict agree(const RealMpi& real, Pmix& board, int rank, int size, const std::string& own,
              const std::string& trouble, const std::string& fabric, int seconds)
{
    return Tree(real, board, rank, size, own, seconds).agree(trouble, fabric);
}

} // namespace storm::interpose
