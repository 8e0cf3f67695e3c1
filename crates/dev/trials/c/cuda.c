// Performs the actions of a plan with the fake CUDA driver: cuda PLAN RESULT. The result is the content of all segments at the
// end. A kernel checks that it reads what the plan expects, and then writes what the plan says.
#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 512 };

static void need(CUresult status, const char *what) {
  if (status) {
    fprintf(stderr, "%s: status %d\n", what, status);
    exit(1);
  }
}
#define NEED(call) need(call, #call)

// One access of a launch: where its pointer is in the parameters, the offset from the pointer, and the content.
struct access {
  int writes;
  size_t pointer, offset, bytes;
  unsigned char *content;
};
struct work {
  int count;
  struct access all[16];
};

static struct segment {
  CUdeviceptr at;
  size_t bytes;
} segments[MOST];
static int segment_count;
static CUstream streams[8];
static CUfunction kernels[64];
static int kernel_parameters[64];
static size_t kernel_offsets[64][MOST_PARAMETERS];
static void (*torch_report)(uint64_t at, int64_t bytes);

static unsigned char *unhex(const char *text, size_t *bytes) {
  *bytes = strlen(text) / 2;
  unsigned char *content = malloc(*bytes + 1);
  for (size_t at = 0; at < *bytes; at++) sscanf(text + 2 * at, "%2hhx", content + at);
  return content;
}

static void run(void **parameters) {
  struct work *work = fake_running_data();
  for (int at = 0; at < work->count; at++) {
    struct access *access = &work->all[at];
    char *place = *(char **)((char *)parameters[0] + access->pointer) + access->offset;
    if (access->writes) memcpy(place, access->content, access->bytes);
    else if (memcmp(place, access->content, access->bytes)) {
      fprintf(stderr, "a kernel does not read what the plan expects\n");
      _exit(70);
    }
  }
}

static size_t number(void) {
  const char *word = strtok(NULL, " \n");
  return word ? strtoull(word, NULL, 10) : 0;
}
static const char *word(void) {
  const char *word = strtok(NULL, " \n");
  return word ? word : "";
}
static CUdeviceptr place(void) {
  size_t segment = number();
  return segments[segment].at + number();
}

static void load_torch(void) {
  void *library = dlopen("libc10_cuda.so", RTLD_LAZY);
  torch_report = library ? (void (*)(uint64_t, int64_t))dlsym(library, "torch_report") : NULL;
  if (!torch_report) need(1, dlerror());
}

// A segment with what its memory contains. A real device leaves it over from earlier programs.
static void new_segment(void) {
  struct segment *segment = &segments[segment_count++];
  unsigned char *content = unhex(word(), &segment->bytes);
  NEED(cuMemAlloc_v2(&segment->at, segment->bytes));
  memcpy((void *)segment->at, content, segment->bytes);
  free(content);
}

static void new_kernel(void) {
  size_t which = number();
  const char *name = word();
  uint64_t code = number();
  int count = (int)number();
  size_t sizes[MOST_PARAMETERS];
  for (int at = 0; at < count; at++) kernel_offsets[which][at] = number(), sizes[at] = number();
  kernel_parameters[which] = count;
  kernels[which] = fake_define(name, count, kernel_offsets[which], sizes, code, run);
}

// The parameters of the next launch, and what it does.
static unsigned char *parameters;
static struct work *work;

static void launch(void) {
  CUstream stream = streams[number()];
  size_t which = number();
  void *pointers[MOST_PARAMETERS];
  for (int at = 0; at < kernel_parameters[which]; at++) pointers[at] = parameters + kernel_offsets[which][at];
  fake_next_data(work);
  NEED(cuLaunchKernel(kernels[which], 1, 1, 1, 32, 1, 1, 0, stream, pointers, NULL));
  free(parameters);
}

static void add_access(int writes) {
  struct access *access = &work->all[work->count++];
  access->writes = writes, access->pointer = number(), access->offset = number();
  access->content = unhex(word(), &access->bytes);
}

static void wait_for(CUstream stream, CUstream other) {
  CUevent event;
  NEED(cuEventCreate(&event, 0));
  NEED(cuEventRecord(event, other));
  NEED(cuStreamWaitEvent(stream, event, 0));
}

static void write_result(const char *path) {
  FILE *result = fopen(path, "w");
  for (int which = 0; which < segment_count; which++) {
    for (size_t at = 0; at < segments[which].bytes; at++) fprintf(result, "%02x", ((unsigned char *)segments[which].at)[at]);
    fputc('\n', result);
  }
  fclose(result);
}

int main(int count, char **args) {
  FILE *plan = count == 3 ? fopen(args[1], "r") : NULL;
  if (!plan) need(1, "PLAN RESULT");
  char *line = NULL;
  size_t room = 0;
  NEED(cuInit(0));
  while (getline(&line, &room, plan) > 0) {
    const char *what = strtok(line, " \n");
    if (!strcmp(what, "stream")) NEED(cuStreamCreate(&streams[number()], 1));
    else if (!strcmp(what, "torch")) load_torch();
    else if (!strcmp(what, "segment")) new_segment();
    else if (!strcmp(what, "block")) {
      CUdeviceptr at = place();
      torch_report(at, (int64_t)number());
    } else if (!strcmp(what, "kernel")) new_kernel();
    else if (!strcmp(what, "wait")) {
      CUstream stream = streams[number()];
      wait_for(stream, streams[number()]);
    } else if (!strcmp(what, "write")) {
      CUstream stream = streams[number()];
      CUdeviceptr at = place();
      size_t bytes;
      // Never freed, because the copy reads it when it runs.
      unsigned char *content = unhex(word(), &bytes);
      NEED(cuMemcpyHtoDAsync_v2(at, content, bytes, stream));
    } else if (!strcmp(what, "parameters")) {
      size_t bytes;
      parameters = unhex(word(), &bytes);
      work = calloc(1, sizeof *work);
    } else if (!strcmp(what, "pointer")) {
      size_t offset = number();
      CUdeviceptr at = place();
      memcpy(parameters + offset, &at, sizeof at);
    } else if (!strcmp(what, "reads")) add_access(0);
    else if (!strcmp(what, "writes")) add_access(1);
    else if (!strcmp(what, "launch")) launch();
    else if (!strcmp(what, "syncall")) NEED(cuCtxSynchronize());
    else if (!strcmp(what, "read")) {
      CUdeviceptr at = place();
      size_t bytes = number();
      void *content = malloc(bytes);
      NEED(cuMemcpyDtoH_v2(content, at, bytes));
      free(content);
    } else need(1, what);
  }
  NEED(cuCtxSynchronize());
  write_result(args[2]);
  return 0;
}
