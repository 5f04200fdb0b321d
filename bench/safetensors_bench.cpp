// Loading a safetensors file of about 500 MB (GPT-2's smallest) from the page cache, against read(2) of the same file
// into memory that is there: the rate at which this machine gives out what it has cached. Each line is the median of
// several rounds, the two taken in turn.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "comm/launch.h"
#include "engine/cpu_engine.h"
#include "parallel/data_parallel.h"
#include "train/hugging_face.h"

namespace {

using namespace cleave;

constexpr int kRounds = 7;

double seconds(const std::function<void()>& act) {
    const auto begin = std::chrono::steady_clock::now();
    act();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

void read_file(const std::filesystem::path& path, std::vector<char>& buffer) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::size_t done = 0;
    for (ssize_t got; (got = ::read(file.get(), buffer.data() + done, buffer.size() - done)) > 0;)
        done += static_cast<std::size_t>(got);
    if (done != buffer.size()) throw UserError("{}: read {} of {} bytes", path.string(), done, buffer.size());
}

void measure(Engine& engine, const ModelConfig& config, const std::filesystem::path& folder, DType stored) {
    const std::filesystem::path file = folder / kWeightsName;
    Transformer model(engine, config, data_parallel_layouts(engine.mesh()), DType::f32);
    model.initialize(1);
    write_hugging_face(folder, model, stored);
    std::vector<char> buffer(std::filesystem::file_size(file));
    std::vector<double> reads, loads;
    for (int round = 0; round < kRounds; ++round) {
        reads.push_back(seconds([&] { read_file(file, buffer); }));
        loads.push_back(seconds([&] { HuggingFaceFolder(folder).load(model); }));
    }
    const double size = static_cast<double>(buffer.size()) * 1e-9;
    fmt::print("{:4} {:.0f} MB   read(2) {:5.2f} GB/s   open, check and load to f32 {:5.2f} GB/s   {:4.0f} %\n",
               name_of(stored), size * 1e3, size / median(reads), size / median(loads),
               100 * median(reads) / median(loads));
}

}  // namespace

int main() {
    ModelConfig config;
    config.layers = 12;
    config.heads = 12;
    config.width = 768;
    config.context = 1024;
    config.vocabulary = 50257;
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / fmt::format("cleave-safetensors-bench-{}", ::getpid());
    std::filesystem::create_directory(folder);
    const Mesh mesh({{"pp", 1}, {"dp", 1}, {"cp", 1}, {"tp", 1}});
    comm::run_ranks({}, [&](comm::Communicator& world) {
        CpuEngine engine(mesh, world, team_size(1));
        fmt::print("team of {}\n", engine.team());
        for (const DType stored : {DType::f32, DType::bf16}) measure(engine, config, folder, stored);
    });
    std::filesystem::remove_all(folder);
}
