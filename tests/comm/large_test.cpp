// More than 2^31 elements in one message. The buffers are windows of 2 GiB and a bit on few pages of memory (the same
// pages over and over), with a last part of their own, so that the test needs little memory and sees a wrong end.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "ranks.h"

namespace cleave::comm::test {
namespace {

constexpr std::int64_t kRepeated = 32 << 20;
constexpr std::int64_t kElements = (std::int64_t{1} << 31) + kRepeated;  // u8

class Window {
  public:
    Window() : file_(memfd_create("window", 0)) {
        CLEAVE_CHECK(file_ >= 0 && ftruncate(file_, 2 * kRepeated) == 0);
        void* at = mmap(nullptr, kElements, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CLEAVE_CHECK(at != MAP_FAILED);
        data_ = static_cast<std::uint8_t*>(at);
        for (std::int64_t offset = 0; offset < kElements; offset += kRepeated) {
            const bool last = offset + kRepeated == kElements;
            CLEAVE_CHECK(mmap(data_ + offset, kRepeated, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
                              last ? kRepeated : 0) != MAP_FAILED);
        }
    }
    ~Window() {
        munmap(data_, kElements);
        close(file_);
    }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    std::uint8_t* data() { return data_; }
    std::uint8_t* end_part() { return data_ + kElements - kRepeated; }

  private:
    int file_;
    std::uint8_t* data_;
};

TEST(SlowLarge, MoreThanTwoToThe31Elements) {
    on_ranks(2, [](Communicator& world) {
        Window x;
        std::memset(x.data(), 1 + world.rank(), kRepeated);
        std::memset(x.end_part(), 11 + world.rank(), kRepeated);
        if (world.rank() == 0) {
            world.send(x.data(), kElements, DType::u8, 1);
        } else if (world.rank() == 1) {
            world.recv(x.data(), kElements, DType::u8, 0);
            EXPECT_EQ(x.data()[0], 1);
            EXPECT_EQ(x.end_part()[0], 11);
            EXPECT_EQ(x.end_part()[kRepeated - 1], 11);
        }
        std::memset(x.data(), 1 + world.rank(), kRepeated);
        std::memset(x.end_part(), 11 + world.rank(), kRepeated);
        world.broadcast(x.data(), kElements, DType::u8, 1).wait();
        EXPECT_EQ(x.data()[kRepeated - 1], 2);
        EXPECT_EQ(x.end_part()[0], 12);
        EXPECT_EQ(x.end_part()[kRepeated - 1], 12);
    });
}

// Over MPI the same would stage gigabytes; the parts of a large message are tested above.
TEST(Inproc, SumOfMoreThanTwoToThe31ElementsBetweenThreads) {
    on_ranks(2, [](Communicator& world) {
        Window x;
        Window y;
        std::memset(x.data(), 1 + world.rank(), kRepeated);
        std::memset(x.end_part(), 11 + world.rank(), kRepeated);
        world.all_reduce(x.data(), y.data(), kElements, DType::u8, ReduceOp::sum).wait();
        EXPECT_EQ(y.data()[0], 3);
        EXPECT_EQ(y.end_part()[0], 23);
        EXPECT_EQ(y.end_part()[kRepeated - 1], 23);
        EXPECT_EQ(x.end_part()[0], 11 + world.rank());
    });
}

}  // namespace
}  // namespace cleave::comm::test
