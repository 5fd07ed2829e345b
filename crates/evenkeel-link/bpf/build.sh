#!/bin/sh
# Compiles demux.c into the object that evenkeel loads, or into the file that is named.
set -e
cd "$(dirname "$0")"
object=${1:-demux.o}
# The object is the same wherever it is compiled.
clang -O2 -g -fno-strict-aliasing -Wall -Wextra -Werror -fdebug-compilation-dir=. -target bpf -c demux.c -o "$object"
# Types of the maps stay; the kernel needs no others.
llvm-strip -g -R .BTF.ext -R .rel.BTF.ext "$object"
