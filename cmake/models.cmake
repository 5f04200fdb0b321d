# cleave_embed_models(<target>): models/*.toml become a table in the program (config/models.h), which so stands alone.
function(cleave_embed_models target)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/models/*.toml)
  set(entries "")
  foreach(file ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME_WLE)
    file(READ ${file} text)
    string(APPEND entries "    {\"${name}\", R\"toml(${text})toml\"},\n")
  endforeach()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/model_files.cpp)
  file(CONFIGURE OUTPUT ${generated} CONTENT [[// Made from models/*.toml by cmake/models.cmake.
#include "config/models.h"

namespace cleave {

std::span<const ModelFile> model_files() {
  static constexpr ModelFile kFiles[] = {
@entries@  };
  return kFiles;
}

}  // namespace cleave
]] @ONLY)
  target_sources(${target} PRIVATE ${generated})
endfunction()
