// SPDX-License-Identifier: MIT
// The job's notice board before and beside MPI: PMIx, loaded only inside a job that a
// launcher started, through the library that the real MPI uses itself.
#pragma once

#include <string>

namespace storm::interpose {

class Pmix {
public:
    // False with the reason when this process was not started by a PMIx launcher.
    bool open(std::string& why);
    void close();
    bool put(const char* key, const std::string& value);
    // What `rank` of our job put under `key`; false when nothing came within the time.
    bool get(int rank, const char* key, int seconds, std::string& value) const;
    int rank() const { return rank_; }

private:
    void* library_ = nullptr;
    bool open_ = false;
    int rank_ = -1;
    char job_[256] = "";
};

} // namespace storm::interpose
