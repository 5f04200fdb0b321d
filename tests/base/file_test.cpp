// Files: whole or not at all, and errors a user can act on. A full disk is met twice, both without special rights: as
// the file size limit (EFBIG, on the whole atomic path) and as /dev/full (ENOSPC).
#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string user_error(const std::function<void()>& act) {
    try {
        act();
    } catch (const UserError& error) {
        return error.what();
    }
    return "no UserError";
}

class FileTest : public testing::Test {
  protected:
    FileTest() : directory_(fs::temp_directory_path() / ("cleave_file_test_" + std::to_string(::getpid()))) {
        fs::create_directories(directory_);
    }
    ~FileTest() override { fs::remove_all(directory_); }

    fs::path path(const std::string& name) const { return directory_ / name; }
    std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& entry : fs::directory_iterator(directory_)) found.push_back(entry.path().filename());
        std::sort(found.begin(), found.end());
        return found;
    }

  private:
    fs::path directory_;
};

// Files may not grow beyond `bytes` while it lives.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        rlimit limit = before_;
        limit.rlim_cur = bytes;
        EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

  private:
    void (*handler_)(int);
    rlimit before_{};
};

TEST_F(FileTest, WriteThenReadGivesTheSameBytes) {
    const std::string text("line\n\0 and more", 15);
    write_file(path("a"), text);
    EXPECT_EQ(read_text_file(path("a")), text);
    write_file(path("a"), "");
    EXPECT_EQ(read_text_file(path("a")), "");
    EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(FileTest, NothingIsSeenBeforeCommit) {
    write_file(path("a"), "old");
    AtomicFile file(path("a"));
    file.write("ne");
    file.write("w");
    EXPECT_EQ(read_text_file(path("a")), "old");
    file.commit();
    EXPECT_EQ(read_text_file(path("a")), "new");
    EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(FileTest, WithoutCommitTheOldFileStaysAndNothingElse) {
    write_file(path("a"), "old");
    { AtomicFile(path("a")).write("new"); }
    EXPECT_EQ(read_text_file(path("a")), "old");
    EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(FileTest, TwoWritersOfOneFileDoNotMix) {
    AtomicFile first(path("a"));
    AtomicFile second(path("a"));
    first.write("first");
    second.write("second");
    second.commit();
    first.commit();
    EXPECT_EQ(read_text_file(path("a")), "first");
}

TEST_F(FileTest, AFullDiskLosesNothingAndSaysWhatToDo) {
    write_file(path("checkpoint"), "old");
    const FileSizeLimit limit(1000);
    const std::string message = user_error([&] { write_file(path("checkpoint"), std::string(5000, 'x')); });
    EXPECT_THAT(message, AllOf(HasSubstr("cannot write '" + path("checkpoint").string() + "'"),
                               HasSubstr("File too large"), HasSubstr("free some space")));
    EXPECT_EQ(read_text_file(path("checkpoint")), "old");
    EXPECT_THAT(names(), ElementsAre("checkpoint"));
}

TEST_F(FileTest, NoSpaceLeftIsNamed) {
    AppendFile file("/dev/full", AppendFile::Mode::append);
    EXPECT_EQ(user_error([&] { file.append("x"); }),
              "cannot write '/dev/full': No space left on device; free some space (or raise the quota or file size "
              "limit), or choose another directory");
}

TEST_F(FileTest, UnwritablePlacesAreNamed) {
    EXPECT_THAT(user_error([&] { write_file(path("no/such/file"), "x"); }),
                AllOf(HasSubstr(path("no/such/file").string()), HasSubstr("No such file or directory")));
    fs::create_directory(path("directory"));
    EXPECT_THAT(user_error([&] { write_file(path("directory"), "x"); }), HasSubstr("it is a directory"));
    EXPECT_THAT(names(), ElementsAre("directory"));
}

TEST_F(FileTest, AppendKeepsWhatIsThereAndTruncateDoesNot) {
    AppendFile(path("log"), AppendFile::Mode::truncate).append("one\n");
    AppendFile more(path("log"), AppendFile::Mode::append);
    more.append("two\n");
    EXPECT_EQ(read_text_file(path("log")), "one\ntwo\n");  // seen while the file is open
    AppendFile(path("log"), AppendFile::Mode::truncate).append("three\n");
    EXPECT_EQ(read_text_file(path("log")), "three\n");
}

TEST_F(FileTest, AMappedFileHoldsTheBytes) {
    std::string text(100'000, 'a');
    text.back() = 'z';
    write_file(path("a"), text);
    MappedFile mapped(path("a"));
    ASSERT_EQ(mapped.size(), text.size());
    EXPECT_EQ(mapped.bytes().front(), std::byte{'a'});
    EXPECT_EQ(mapped.bytes().back(), std::byte{'z'});
    write_file(path("a"), "replaced");  // by renaming: the mapping keeps the old bytes
    EXPECT_EQ(mapped.bytes().back(), std::byte{'z'});
    MappedFile moved = std::move(mapped);
    EXPECT_EQ(moved.bytes().back(), std::byte{'z'});
    moved = MappedFile(path("a"));
    EXPECT_EQ(moved.size(), 8U);
}

TEST_F(FileTest, AnEmptyFileMapsToNoBytes) {
    write_file(path("a"), "");
    EXPECT_TRUE(MappedFile(path("a")).bytes().empty());
}

// Each of these tests would wait, or fill the memory, for ever.
TEST_F(FileTest, APipeOrADeviceIsNoText) {
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    for (const fs::path& name : {path("pipe"), fs::path("/dev/zero"), fs::path("/dev/null")})
        EXPECT_EQ(user_error([&] { read_text_file(name); }),
                  "cannot read '" + name.string() + "': it is a pipe or a device; accepted: a file on a disk");
}

TEST_F(FileTest, ATextHasABound) {
    write_file(path("a"), "12345");
    EXPECT_EQ(read_text_file(path("a"), 5), "12345");
    EXPECT_THAT(user_error([&] { read_text_file(path("a"), 4); }), HasSubstr("it has 5 bytes; accepted: at most 4"));
    EXPECT_THAT(user_error([] { read_text_file("/proc/self/status", 4); }), HasSubstr("accepted: at most 4"));
    fs::resize_file(path("a"), std::uintmax_t{kMostTextBytes} + 1);
    EXPECT_THAT(user_error([&] { read_text_file(path("a")); }), HasSubstr("it has 268435457 bytes"));
}

TEST_F(FileTest, UnreadableFilesAreNamed) {
    for (const auto& read :
         {+[](const fs::path& p) { read_text_file(p); }, +[](const fs::path& p) { MappedFile m(p); }}) {
        EXPECT_EQ(user_error([&] { read(path("gone")); }),
                  "cannot read '" + path("gone").string() + "': No such file or directory");
        EXPECT_THAT(user_error([&] { read(path("")); }), HasSubstr("it is a directory, not a file"));
    }
    EXPECT_THAT(user_error([] { MappedFile m("/dev/null"); }), HasSubstr("'/dev/null': it is not a regular file"));
}

}  // namespace
}  // namespace cleave
