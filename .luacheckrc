-- Lint of everything written in Lua: `./dev lint`.
std = "lua54"
max_line_length = 120
exclude_files = { "build" }
-- An argument that a signature demands is no mistake when the body has no use for it.
unused_args = false

files["spec"] = { std = "+busted" }
-- They replace functions of the standard library; that is what they are for.
files["lua/lp/stdio.lua"] = { ignore = { "122" } }
files["lua/lp/main.lua"] = { ignore = { "122" } }
files["lua/lp/embed.lua"] = { ignore = { "122" } }
