#!/bin/sh
# Compiles the programs into the objects that evenkeel loads, here or in the directory that is named.
set -e
cd "$(dirname "$0")"
to=${1:-.}
for program in demux keep refuse; do
	# The object is the same wherever it is compiled.
	clang -O2 -g -fno-strict-aliasing -Wall -Wextra -Werror -fdebug-compilation-dir=. -target bpf -c "$program.c" \
		-o "$to/$program.o"
	# Types of the maps stay; the kernel needs no others.
	llvm-strip -g -R .BTF.ext -R .rel.BTF.ext "$to/$program.o"
done
