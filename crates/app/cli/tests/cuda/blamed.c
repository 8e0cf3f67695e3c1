// A program whose launches receive structs: blamed GARBAGE STALE FAULT. Padding and memory that nothing has written hold GARBAGE.
// STALE is the buffer that an unused pointer of the structs refers to, or `output`, or `none`. FAULT is `none`, the number of the
// wrong launch, or `reads`, which adds right launches that use memory that nothing has written.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 128 };

static void need(CUresult status, const char *what) {
  if (status) {
    fprintf(stderr, "%s: status %d\n", what, status);
    exit(1);
  }
}
#define NEED(call) need(call, #call)

struct block {
  uint64_t garbage;
  uint32_t *x, *unused, *y;
  uint32_t count, padding;
};

// A wrong launch adds 1 to the element.
static uint32_t off(uint32_t at) { return fake_running_data() && at == 2; }

static void scale(void **parameters) {
  struct block *block = parameters[0];
  for (uint32_t at = 0; at < block->count; at++) block->y[at] = block->x[at] * 3 + off(at);
}
static void part(void **parameters) {
  struct block *block = parameters[0];
  for (uint32_t at = 0; at < block->count; at++) block->y[at] = block->y[at] * 5 + block->x[at] + off(at);
}
static void fill(void **parameters) {
  struct block *block = parameters[0];
  for (uint32_t at = 0; at < block->count; at++) block->y[at] = at + off(at);
}
static void add(void **parameters) {
  struct block *block = parameters[0];
  for (uint32_t at = 0; at < block->count; at++) block->y[at] += block->x[at];
}

static CUstream stream;
static CUdeviceptr memory[9];
static unsigned garbage;
static const char *stale;
static int launches, wrong = -1;

static void launch(CUfunction kernel, int x, int y, uint32_t count) {
  struct block block;
  memset(&block, (int)garbage, sizeof block);
  block.x = (uint32_t *)memory[x], block.y = (uint32_t *)memory[y];
  if (!strcmp(stale, "output")) block.unused = block.y;
  else if (strcmp(stale, "none")) block.unused = (uint32_t *)memory[atoi(stale)];
  block.count = count;
  void *parameters[] = {&block};
  fake_next_data(launches++ == wrong ? &wrong : NULL);
  NEED(cuLaunchKernel(kernel, 2, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

int main(int count, char **args) {
  if (count != 4) return 2;
  garbage = (unsigned)atoi(args[1]), stale = args[2];
  int reads = !strcmp(args[3], "reads");
  if (!reads && strcmp(args[3], "none")) wrong = atoi(args[3]);
  size_t offset = 0, size = sizeof(struct block);
  CUfunction kernels[4];
  const char *names[] = {"scale", "part", "fill", "add"};
  void (*runs[])(void **) = {scale, part, fill, add};
  NEED(cuInit(0));
  NEED(cuStreamCreate(&stream, 0));
  for (int at = 0; at < 4; at++) kernels[at] = fake_define(names[at], 1, &offset, &size, 100 + (uint64_t)at, runs[at]);
  for (int at = 0; at < 9; at++) {
    NEED(cuMemAlloc_v2(&memory[at], 4 * WORDS));
    memset((void *)memory[at], (int)garbage, 4 * WORDS);
  }
  uint32_t words[WORDS];
  for (uint32_t at = 0; at < WORDS; at++) words[at] = 7 * at + 1;
  NEED(cuMemcpyHtoD_v2(memory[0], words, sizeof words));
  launch(kernels[0], 0, 1, WORDS);
  launch(kernels[0], 1, 2, WORDS);
  // Buffers of which only a few elements are used.
  launch(kernels[2], 0, 3, 4);
  for (int at = 0; at < 3; at++) launch(kernels[1], 0, 3, 4);
  if (reads) {
    launch(kernels[3], 0, 4, WORDS);
    launch(kernels[0], 5, 6, WORDS);
    launch(kernels[0], 6, 7, WORDS);
  }
  NEED(cuMemcpyDtoHAsync_v2(words, memory[2], sizeof words, stream));
  NEED(cuStreamSynchronize(stream));
  NEED(cuCtxSynchronize());
  printf("%u %u\n", words[2], words[WORDS - 1]);
  return 0;
}
