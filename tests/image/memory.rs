//! The functions for memory in the static binary, compared with those of this machine's C library.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::artifacts::static_binary;
use crate::support::process::run;
use crate::support::{Need, machine_has, tell};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/image/memory.c");
const SCRIPT: &str = include_str!("../../deploy/image/binary.sh");

/// Compares each function, for all sizes and alignments, and around the blocks that it may touch.
const COMPARISON: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *our_memmove(void *, const void *, size_t), *our_memcpy(void *, const void *, size_t);
void *our_memset(void *, int, size_t);
int our_memcmp(const void *, const void *, size_t), our_bcmp(const void *, const void *, size_t);

enum { AREA = 16384, MIDDLE = 4096 };
static unsigned char ours[AREA], theirs[AREA], before[AREA];

static void check(int is_right, const char *name, size_t size, size_t a, size_t b)
{
	if (!is_right) {
		printf("%s of %zu bytes, %zu and %zu\n", name, size, a, b);
		exit(1);
	}
}

static int sign(int order) { return (order > 0) - (order < 0); }

static void moves(size_t size, size_t to, size_t from)
{
	void *end = ours + to;

	memcpy(ours, before, AREA);
	memcpy(theirs, before, AREA);
	memmove(theirs + to, theirs + from, size);
	check(our_memmove(ours + to, ours + from, size) == end, "memmove returns", size, to, from);
	check(!memcmp(ours, theirs, AREA), "memmove", size, to, from);
	if (to + size <= from || from + size <= to) {
		memcpy(ours, before, AREA);
		check(our_memcpy(ours + to, ours + from, size) == end, "memcpy returns", size, to, from);
		check(!memcmp(ours, theirs, AREA), "memcpy", size, to, from);
	}
}

static void sets(size_t size, size_t to)
{
	memcpy(ours, before, AREA);
	memcpy(theirs, before, AREA);
	memset(theirs + to, 0x1fe, size);
	check(our_memset(ours + to, 0x1fe, size) == ours + to, "memset returns", size, to, 0);
	check(!memcmp(ours, theirs, AREA), "memset", size, to, 0);
}

/* Blocks that differ at one byte and at all after it, as signed and as unsigned numbers. */
static void compares(size_t size, size_t left, size_t right)
{
	static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
	size_t at, i;

	memcpy(ours + left, before + left, size);
	memcpy(theirs + right, ours + left, size);
	/* What follows is no part of the blocks. */
	ours[left + size] = 1;
	theirs[right + size] = 2;
	check(!our_memcmp(ours + left, theirs + right, size), "memcmp", size, left, right);
	check(!our_bcmp(ours + left, theirs + right, size), "bcmp", size, left, right);
	for (at = 0; at < size; at += size > 80 ? 7 : 1)
		for (i = 0; i < sizeof values; i++) {
			const unsigned char *l = ours + left, *r = theirs + right;
			unsigned char kept = theirs[right + at], last = theirs[right + size - 1];

			theirs[right + size - 1] ^= 0xff;
			theirs[right + at] = values[i];
			check(sign(our_memcmp(l, r, size)) == sign(memcmp(l, r, size)), "memcmp", size, at, i);
			check(sign(our_memcmp(r, l, size)) == sign(memcmp(r, l, size)), "memcmp", size, at, i);
			check(!our_bcmp(l, r, size) == !memcmp(l, r, size), "bcmp", size, at, i);
			theirs[right + size - 1] = last;
			theirs[right + at] = kept;
		}
}

int main(void)
{
	static const size_t large[] = {511, 512, 1000, 1024, 4095, 4096, 4097};
	size_t size, i, count = 0;
	uint32_t state = 1;

	for (i = 0; i < AREA; i++)
		before[i] = (state = state * 1664525 + 1013904223) >> 24;
	for (i = 0; i < 300 + sizeof large / sizeof *large; i++) {
		size = i < 300 ? i : large[i - 300];
		for (size_t to = 0; to < 17; to++) {
			sets(size, MIDDLE + to);
			compares(size, MIDDLE + to, MIDDLE + 3);
			moves(size, MIDDLE + to, 2 * MIDDLE + MIDDLE / 2);
		}
		/* Overlapping by all distances that matter to a block of 64 bytes. */
		for (size_t distance = 0; distance < 200; distance += distance < 70 ? 1 : 13) {
			moves(size, MIDDLE, MIDDLE + distance);
			moves(size, MIDDLE + distance, MIDDLE);
			count++;
		}
	}
	printf("%zu\n", count);
	return 0;
}
"#;

/// Compiles the functions as binary.sh does; their names begin with `our_`.
fn compile(folder: &Path) {
    let flags = SCRIPT.lines().find_map(|line| {
        line.strip_prefix("readonly memory_flags=(")?
            .strip_suffix(')')
    });
    let mut compiler = Command::new("cc");
    compiler.args(flags.unwrap().split_whitespace());
    compiler.args(["-Wall", "-Wextra", "-Werror", "-c", SOURCE, "-o"]);
    run(compiler.arg(folder.join("memory.o")));
    let mut rename = Command::new("objcopy");
    rename.arg("--prefix-symbols=our_");
    run(rename
        .arg(folder.join("memory.o"))
        .arg(folder.join("ours.o")));
}

#[test]
fn functions_for_memory_do_what_those_of_the_c_library_do() {
    if cfg!(not(target_arch = "x86_64")) {
        tell("skipped: they are for x86_64");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path());
    let file = |name: &str| folder.path().join(name);
    fs::write(file("comparison.c"), COMPARISON).unwrap();
    let mut compiler = Command::new("cc");
    // Calls of the C library, instead of code that the compiler writes for them.
    compiler.args(["-O1", "-fno-builtin", "-o"]);
    run(compiler
        .arg(file("comparison"))
        .arg(file("comparison.c"))
        .arg(file("ours.o")));
    let counted = run(&mut Command::new(file("comparison")));
    assert!(counted.trim().parse::<u32>().unwrap() > 20_000, "{counted}");
}

#[test]
fn the_static_binary_has_the_functions_for_memory() {
    if !machine_has(Need::StaticBinaries) || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path());
    let code = folder.path().join("code");
    let mut extract = Command::new("objcopy");
    extract.args(["--only-section=.text", "-O", "binary"]);
    run(extract.arg(folder.path().join("memory.o")).arg(&code));
    let code = fs::read(code).unwrap();
    assert!(code.len() > 500, "{}", code.len());
    let binary = fs::read(static_binary("amd64")).unwrap();
    assert!(memchr::memmem::find(&binary, &code).is_some());
}
