// SPDX-License-Identifier: MIT
// Reading a job from the launcher's command line and the files it names.
#include "job.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "messages.hh"

namespace storm::tools {

namespace {

void refuse_misplaced_options(const AppContext &context) {
    if (context.kind == Kind::hydra) return;  // it has a -launcher of its own
    for (const auto &option : context.options) {
        const std::string name = option.name.substr(0, option.name.find('='));
        if (name == "dry-run" || name == "off" || name == "launcher" || name == "lib")
            stop_usage("option --" + name + " is among the launcher's (it is stormrun's own): put it first");
    }
}

// Where mca_base_env_list is set, strongest first: the command line, the environment,
// tune files, the user's parameter file, the system's.
void read_env_list(Job &job, const std::string &launcher) {
    for (const auto &context : job.contexts) {
        if (auto delimiter = context.mca_value("mca_base_env_list_delimiter"); delimiter && !delimiter->empty())
            job.env_delimiter = delimiter->front();
        if (!job.env_list) job.env_list = context.mca_value("mca_base_env_list");
    }
    if (auto delimiter = environment("OMPI_MCA_mca_base_env_list_delimiter"); delimiter && !delimiter->empty())
        job.env_delimiter = delimiter->front();
    if (!job.env_list) job.env_list = environment("OMPI_MCA_mca_base_env_list");

    for (const auto &context : job.contexts) {
        for (const auto &path : split_words(context.value_of({"tune"}).value_or(""), ",")) {
            EnvironmentFile file = read_tune_file(read_text(path).value_or(""));
            job.tuned.insert(job.tuned.end(), file.exports.begin(), file.exports.end());
            if (!job.env_list) job.env_list = std::move(file.env_list);
        }
    }
    const std::string prefix = directory_of(directory_of(absolute(launcher)));
    for (const std::string &path :
         {environment("HOME").value_or("") + "/.openmpi/mca-params.conf",
          prefix + "/etc/openmpi-mca-params.conf", std::string("/etc/openmpi/openmpi-mca-params.conf")}) {
        if (!job.env_list) job.env_list = read_parameter_file(read_text(path).value_or("")).env_list;
    }
}

bool may_run_elsewhere(const Job &job) {
    if (job.kind == Kind::slurm) return true;
    for (const char *name : {"SLURM_JOB_ID", "PBS_NODEFILE", "LSB_HOSTS", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE",
                             "FLUX_JOB_ID", "COBALT_NODEFILE", "OMPI_MCA_orte_default_hostfile"}) {
        if (environment(name)) return true;
    }
    const auto named = [](const AppContext &context) {
        return context.has_option({"host", "H", "hostfile", "machinefile", "default-hostfile", "rankfile", "rf",
                                   "add-host", "add-hostfile", "hnp", "set-cwd-to-session-dir", "hosts", "f",
                                   "machine"});
    };
    return std::any_of(job.contexts.begin(), job.contexts.end(), named) ||
           std::any_of(job.lines.begin(), job.lines.end(), named);
}

void read_app_lines(Job &job) {
    const auto text = read_text(job.app_file);
    if (!text)
        stop(exit_usage, "application file " + job.app_file + " cannot be read (" + std::strerror(errno) +
                             "): correct --app");
    job.lines = read_app_file(*text);
    for (const auto &line : job.lines) {
        if (!line.has_program())
            stop(exit_usage, "application file " + job.app_file + " has a line without a program (" +
                                 joined(line.words, " ") + "): correct it");
    }
    if (job.lines.empty())
        stop(exit_usage, "application file " + job.app_file + " names no program (it is empty): correct it");
}

}  // namespace

Words Job::list_items() const {
    return split_words(env_list.value_or(""), std::string_view(&env_delimiter, 1));
}

std::string Job::variable(const AppContext &context, const char *name) const {
    if (auto value = value_in(context.exports(), name)) return *value;
    if (kind == Kind::hydra)  // -genv of the first context holds for all
        if (auto value = value_in(contexts.front().exports_for_all(), name)) return *value;
    if (auto value = value_in(list_items(), name)) return *value;
    if (auto value = value_in(tuned, name)) return *value;
    return environment(name).value_or("");
}

Job read_job(const Words &words, Kind kind) {
    Job job;
    job.kind = kind;
    job.contexts = split_contexts(words, kind);
    if (job.contexts.empty()) stop_usage("no program to start (there are no arguments): name one");
    for (const auto &context : job.contexts) refuse_misplaced_options(context);

    if (auto file = job.contexts.front().value_of({"configfile"}); file && kind == Kind::hydra)
        stop(exit_usage, "the programs in " + *file + " cannot be preloaded (-configfile is not edited): give them "
                         "on the command line, with : between them");
    if (auto app_file = job.contexts.front().value_of({"app"});
        app_file && !app_file->empty() && kind == Kind::open_mpi) {
        job.app_file = *app_file;
        return job;
    }
    for (std::size_t i = 0; i < job.contexts.size(); ++i) {
        if (job.contexts[i].has_program()) continue;
        stop_usage("no program to start (" +
                   (job.contexts.size() > 1 ? "in application context " + std::to_string(i + 1)
                                            : std::string("all arguments are options of the launcher")) +
                   "): name one after them");
    }
    return job;
}

void read_job_files(Job &job, const std::string &launcher) {
    if (job.has_app_file()) read_app_lines(job);
    if (job.kind == Kind::open_mpi) read_env_list(job, launcher);
    job.elsewhere = may_run_elsewhere(job);
}

}  // namespace storm::tools
