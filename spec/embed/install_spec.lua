--- The installed library, from outside: moved to another place, found by CMake and by pkg-config,
-- used by programs in C and C++.

package.path = "spec/embed/?.lua;" .. package.path
local support = require "support"

local compilers = {
  {"gcc", "-std=c11", "c"}, {"clang", "-std=c11", "c"},
  {"g++", "-std=c++17", "c++"}, {"clang++", "-std=c++17", "c++"},
}
local strict = "-Wall -Wextra -Wpedantic -Wconversion -Werror"

local cmake_lists = [[
cmake_minimum_required(VERSION 3.22)
project(outside LANGUAGES C)
find_package(lp REQUIRED)
add_executable(minimal minimal.c)
target_link_libraries(minimal lp::lp)
add_executable(minimal_static minimal.c)
target_link_libraries(minimal_static lp::static)
]]

local function it_with_library(name, body)
  if support.has_library() then it(name, body) else pending(name) end
end

describe("the installed library", function()
  local folder, prefix

  setup(function()
    if not support.has_library() then return end
    folder = support.folder()
    prefix = folder .. "/moved here"
    support.succeed("cmake --install '%s' --prefix '%s/first'", support.build(), folder)
    support.succeed("mv '%s/first' '%s'", folder, prefix)
    support.succeed("cp bindings/c/minimal.c '%s'", folder)
    support.write(folder .. "/CMakeLists.txt", cmake_lists)
  end)

  teardown(function()
    if folder then support.succeed("rm -rf '%s'", folder) end
  end)

  it_with_library("is found by CMake, shared and static", function()
    support.succeed("cd '%s' && cmake -S . -B build -DCMAKE_PREFIX_PATH='%s' && cmake --build build",
                    folder, prefix)
    assert.equal("Hello, world!\n", support.succeed("timeout 60 '%s/build/minimal'", folder))
    assert.equal("Hello, world!\n", support.succeed("timeout 60 '%s/build/minimal_static'", folder))
  end)

  it_with_library("is found by pkg-config", function()
    local config = ("PKG_CONFIG_PATH='%s/lib/pkgconfig' pkg-config"):format(prefix)
    assert.equal(support.succeed("'%s/bin/lp' version", prefix):match "%d+%.%d+%.%d+",
                 support.succeed(config .. " --modversion lp"):match "%S+")
    support.succeed("cd '%s' && eval cc minimal.c -o outside $(%s --cflags --libs lp)", folder, config)
    assert.equal("Hello, world!\n",
                 support.succeed("LD_LIBRARY_PATH='%s/lib' timeout 60 '%s/outside'", prefix, folder))
  end)

  it_with_library("has nodes that load C modules, linked shared, static or by dlopen", function()
    support.write(folder .. "/modules.c", [[
      #include <dlfcn.h>
      #include <lp.h>
      #include <stdio.h>
      #include <string.h>
      static const char script[] =
          "local lp = require 'lp' local program = lp.Program 'modules' "
          "program:add_node(lp.LuaNode(function() print(require('cjson').encode{1, 2}) end), 'node') "
          "return program";
      static void out(void *user, lp_output_kind kind, const char *node, const char *text, size_t n) {
        (void)user, (void)kind, (void)node, (void)n;
        puts(text);
      }
      #ifdef BY_DLOPEN
      #define F(name) ((__typeof__(&name))dlsym(library, #name))
      #else
      #define F(name) name
      #endif
      int main(int argc, char **argv) {
        lp_engine_options options;
        lp_engine *engine;
        lp_program *program;
        lp_run *run;
        (void)argc, (void)argv;
      #ifdef BY_DLOPEN
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) return puts(dlerror()), 1;
      #endif
        F(lp_engine_options_init)(&options);
        options.output = out;
        int failed = F(lp_engine_open)(&options, &engine) ||
                     F(lp_program_load_text)(engine, "modules", script, strlen(script), 0, NULL, &program) ||
                     F(lp_program_launch)(program, NULL, &run) || F(lp_run_wait)(run, 30) ||
                     F(lp_run_close)(run);
        if (failed) puts(F(lp_message)());
        F(lp_program_free)(program);
        return failed | F(lp_engine_free)(engine);
      }
    ]])
    local ways = {
      {"shared", "-L'PREFIX/lib' -llp -Wl,-rpath,'PREFIX/lib'"},
      {"static", "'PREFIX/lib/liblp.a' $(pkg-config --libs lua5.4) -lev -lm -ldl -lpthread"},
      {"dlopen", "-DBY_DLOPEN -ldl"},
    }
    for _, way in ipairs(ways) do
      support.succeed("cd '%s' && cc modules.c -I'%s/include' %s -o modules_%s", folder, prefix,
                      way[2]:gsub("PREFIX", prefix), way[1])
      assert.same({way[1], "[1,2]\n"}, {way[1], support.succeed("cd '%s' && timeout 60 ./modules_%s '%s/lib/liblp.so'",
                                                              folder, way[1], prefix)})
    end
  end)

  it_with_library("shows the names of its header and no others", function()
    local names = support.succeed("nm -D --defined-only '%s/lib/liblp.so'", prefix)
    local static = support.succeed("nm -g --defined-only '%s/lib/liblp.a'", prefix)
    local header <close> = assert(io.open "engine/lp.h")
    local declared = {}
    for name in header:read "a":gmatch "\nLP_API[^;]-([%w_]+)%(" do declared[name] = true end
    assert.is_true(declared.lp_engine_open and declared.lp_call_fail)
    for _, text in ipairs {names, static} do
      local seen = {}
      for name in text:gmatch "%x+ [A-Z] ([%w_.@]+)" do
        assert.is_true(declared[name], "not in lp.h: " .. name)
        seen[name] = true
      end
      for name in pairs(declared) do assert.is_true(seen[name], "missing: " .. name) end
    end
  end)

  it_with_library("starts node processes with the command beside it", function()
    support.write(folder .. "/mp.lua", [[
      local lp = require "lp"
      local program = lp.Program "mp"
      program:add_node(lp.LuaNode(function() print(lp.context().launch_type) end), "node")
      local run = lp.launch(program, {launch_type = "local_mp"})
      return run
    ]])
    support.write(folder .. "/mp.c", [[
      #include <lp.h>
      #include <stdio.h>
      static void out(void *user, lp_output_kind kind, const char *node, const char *text, size_t n) {
        (void)user, (void)kind, (void)n;
        printf("%s: %s\n", node, text);
      }
      int main(void) {
        lp_engine_options options;
        lp_engine *engine;
        lp_program *program;
        lp_run *run;
        lp_engine_options_init(&options);
        options.output = out;
        int failed = lp_engine_open(&options, &engine) ||
                     lp_program_load_file(engine, "mp.lua", 0, NULL, &program) ||
                     lp_program_launch(program, NULL, &run) || lp_run_wait(run, 30) ||
                     lp_run_close(run);
        if (failed) puts(lp_message());
        lp_program_free(program);
        return failed | lp_engine_free(engine);
      }
    ]])
    support.succeed("cd '%s' && cc mp.c -I'%s/include' -L'%s/lib' -llp -Wl,-rpath,'%s/lib' -o mp",
                    folder, prefix, prefix, prefix)
    assert.equal("node/0: local_mp\n", support.succeed("cd '%s' && env -u LP_COMMAND timeout 60 ./mp", folder))
  end)

  it_with_library("is made into a package for Debian", function()
    support.succeed("cd '%s' && cpack --config '%s/CPackConfig.cmake' -B '%s/deb'", folder, support.build(), folder)
    local list = support.succeed("dpkg-deb -c '%s'/deb/*.deb", folder)
    for _, path in ipairs {"/usr/bin/lp", "/usr/include/lp.h", "/liblp.so.0", "/lp.pc", "/man1/lp.1"} do
      assert.truthy(list:find(path, 1, true), path)
    end
    local depends = support.succeed("dpkg-deb -f '%s'/deb/*.deb Depends", folder)
    support.succeed("dpkg-deb -x '%s'/deb/*.deb '%s/unpacked'", folder, folder)
    local needed = support.succeed("cd '%s/unpacked/usr' && objdump -p bin/lp lib/liblp.so", folder)
    local count = 0
    for library in needed:gmatch "NEEDED%s+(%S+)" do
      local given = false -- by one of the packages that have it
      for package in support.succeed("dpkg -S '*/%s'", library):gmatch "([^:,%s]+):[^\n]*/" do
        given = given or depends:find(package, 1, true)
      end
      assert.truthy(given, ("%s is needed, the package only asks for %s"):format(library, depends))
      count = count + 1
    end
    assert.truthy(count > 4)
  end)

  it_with_library("has a man page and a completion that bash understands", function()
    local page = support.succeed("cat '%s/share/man/man1/lp.1'", prefix)
    assert.truthy(page:find(".B lp run [options] PROGRAM.lua", 1, true))
    assert.truthy(page:find("\\-\\-notice SECONDS", 1, true))
    assert.equal("--notice\n", support.succeed([[bash -c '
      source "%s/share/bash-completion/completions/lp"
      COMP_WORDS=(lp run --not) COMP_CWORD=2
      _lp
      printf "%%s\n" "${COMPREPLY[@]}"']], prefix))
  end)
end)

describe("lp.h and the programs that use it", function()
  for _, compiler in ipairs(compilers) do
    local command, standard, language = table.unpack(compiler)
    local name = ("are without a warning for %s %s"):format(command, standard)
    if support.has(command) then
      it(name, function()
        support.succeed("printf '#include \"lp.h\"\\nint main(void) { return 0; }\\n' | " ..
                        "%s %s %s -Iengine -x %s -fsyntax-only -", command, standard, strict, language)
        local each = "%s %s %s -D_GNU_SOURCE -Iengine -x %s -fsyntax-only \"$f\" || exit 1"
        support.succeed("for f in bindings/c/*.c; do " .. each .. "; done", command, standard, strict, language)
      end)
    else
      pending(name)
    end
  end
end)
