#!/bin/sh
# Compiles the programs into the objects that evenkeel loads, here or in the directory that is named.
set -e
cd "$(dirname "$0")"
to=${1:-.}
for program in demux flood guard keep refuse; do
	# The object is the same wherever it is compiled.
	clang -O2 -g -fno-strict-aliasing -Wall -Wextra -Werror -fdebug-compilation-dir=. -target bpf -c "$program.c" \
		-o "$to/$program.o"
	# Types of the maps stay. The kernel needs no others, unless the program reads its structures.
	grep -q preserve_access_index "$program.c" || others="-R .BTF.ext -R .rel.BTF.ext"
	llvm-strip -g ${others-} "$to/$program.o"
	unset others
done
