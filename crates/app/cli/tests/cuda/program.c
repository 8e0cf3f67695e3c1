// Executes a plan line by line, and prints what it reads.
#include "fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void need(CUresult status, const char *what) {
  if (status) {
    fprintf(stderr, "%s: status %d\n", what, status);
    exit(1);
  }
}
#define NEED(call) need(call, #call)

static CUdeviceptr buffers[256];
static CUstream streams[8];
static CUevent events[4096];
static volatile int is_open;
static CUgraph graphs[8];
static CUgraphExec execs[8];
static CUgraphNode nodes[256];

static void gate(void *data) {
  (void)data;
  while (!is_open) {
  }
}

// An allocator like PyTorch's. It is loaded when a plan needs it.
static CUdeviceptr (*torch_malloc)(size_t);
static void (*torch_free)(CUdeviceptr);
static uint64_t (*reported_to_profiler)(void);

static void *symbol(void *library, const char *name) {
  void *found = library ? dlsym(library, name) : NULL;
  if (!found) need(1, dlerror());
  return found;
}

static void load_torch(int is_bound_at_once) {
  void *library = dlopen(is_bound_at_once ? "libc10_cuda.so.bound" : "libc10_cuda.so", RTLD_LAZY);
  torch_malloc = (CUdeviceptr(*)(size_t))symbol(library, "torch_malloc");
  torch_free = (void (*)(CUdeviceptr))symbol(library, "torch_free");
  reported_to_profiler = (uint64_t(*)(void))symbol(library, "reported_to_profiler");
}

// A launch call that takes long. Parameters: stream, buffer, k, words.
static void *slowly(void *of) {
  unsigned *n = of;
  CUdeviceptr y = buffers[n[1]];
  void *parameters[] = {&y, &n[2], &n[3]};
  NEED(cuLaunchKernel(fake_kernel("put"), 777, 1, 1, 32, 1, 1, 0, streams[n[0]], parameters, NULL));
  return NULL;
}

static CUdeviceptr at(unsigned buffer, unsigned word) { return buffers[buffer] + 4 * (CUdeviceptr)word; }

// Launches in one of three ways.
static void launch(const char *name, unsigned how, CUstream stream, void **parameters, void *packed, size_t bytes) {
  CUfunction kernel = fake_kernel(name);
  CUlaunchConfig config = {{2, 1, 1}, {32, 1, 1}, 0, stream, NULL, 0};
  void *extra[] = {(void *)1, packed, (void *)2, &bytes, NULL};
  switch (how % 3) {
  case 0: NEED(cuLaunchKernel(kernel, 2, 1, 1, 32, 1, 1, 0, stream, parameters, NULL)); break;
  case 1: NEED(cuLaunchKernelEx(&config, kernel, parameters, NULL)); break;
  default: NEED(cuLaunchKernel(kernel, 2, 1, 1, 32, 1, 1, 0, stream, NULL, extra)); break;
  }
}

static uint32_t *content(unsigned seed, unsigned words) {
  // Never freed, because copies read it when they run.
  uint32_t *content = malloc(4 * (size_t)words);
  for (unsigned at = 0; at < words; at++) content[at] = seed * 2654435761u + at * 40503u;
  return content;
}

static void print(const uint32_t *words, unsigned count) {
  uint64_t sum = 14695981039346656037u;
  for (unsigned at = 0; at < count; at++) sum = (sum ^ words[at]) * 1099511628211u;
  printf("%016llx\n", (unsigned long long)sum);
}

int main(int count, char **args) {
  FILE *plan = fopen(args[count - 1], "r");
  char line[256], what[32];
  NEED(cuInit(0));
  while (plan && fgets(line, sizeof line, plan)) {
    unsigned n[10] = {0};
    sscanf(line, "%31s %u %u %u %u %u %u %u %u %u", what, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8);
    CUstream stream = streams[n[0] % 8];
    if (!strcmp(what, "stream")) NEED(cuStreamCreate(&streams[n[0]], n[1]));
    else if (!strcmp(what, "stream_gone")) NEED(cuStreamDestroy_v2(stream));
    else if (!strcmp(what, "reset")) fake_reset();
    else if (!strcmp(what, "alloc")) NEED(cuMemAlloc_v2(&buffers[n[0]], 4 * (size_t)n[1]));
    else if (!strcmp(what, "alloc_async")) NEED(cuMemAllocAsync(&buffers[n[1]], 4 * (size_t)n[2], stream));
    else if (!strcmp(what, "alloc_from")) NEED(cuMemAllocFromPoolAsync(&buffers[n[1]], 4 * (size_t)n[2], (void *)(uintptr_t)n[3], stream));
    else if (!strcmp(what, "free_async")) NEED(cuMemFreeAsync(buffers[n[1]], stream));
    else if (!strcmp(what, "free")) NEED(cuMemFree_v2(buffers[n[0]]));
    else if (!strcmp(what, "texture") || !strcmp(what, "surface")) {
      uint64_t handle, wanted = n[0];
      NEED(what[0] == 't' ? cuTexObjectCreate(&handle, &wanted, NULL, NULL) : cuSurfObjectCreate(&handle, &wanted));
    } else if (!strcmp(what, "texture_gone")) NEED(cuTexObjectDestroy(n[0]));
    else if (!strcmp(what, "surface_gone")) NEED(cuSurfObjectDestroy(n[0]));
    else if (!strcmp(what, "torch")) load_torch((int)n[0]);
    else if (!strcmp(what, "torch_alloc")) buffers[n[0]] = torch_malloc(4 * (size_t)n[1]);
    else if (!strcmp(what, "torch_free")) torch_free(buffers[n[0]]);
    else if (!strcmp(what, "torch_reported")) printf("%016llx\n", (unsigned long long)reported_to_profiler());
    else if (!strcmp(what, "mix")) {
      struct {
        CUdeviceptr x, y;
        uint32_t k, count;
      } p = {at(n[1], n[2]), at(n[3], n[4]), n[5], n[6]};
      void *parameters[] = {&p.x, &p.y, &p.k, &p.count};
      launch("mix", n[7], stream, parameters, &p, sizeof p);
    } else if (!strcmp(what, "put") || !strcmp(what, "plain")) {
      struct {
        CUdeviceptr y;
        uint32_t k, count;
      } p = {at(n[1], n[2]), n[3], n[4]};
      void *parameters[] = {&p.y, &p.k, &p.count};
      launch(what, n[5], stream, parameters, &p, sizeof p);
    } else if (!strcmp(what, "early")) {
      // A launch that may begin early, with its arguments or with no memory at all.
      CUlaunchAttribute attribute = {6, 0, {1}};
      CUlaunchConfig config = {{1, 1, 1}, {32, 1, 1}, 0, stream, &attribute, 1};
      CUdeviceptr y = n[2] ? at(n[1], 0) : 0;
      void *parameters[] = {&y, &n[2], &n[2]};
      NEED(cuLaunchKernelEx(&config, fake_kernel("put"), parameters, NULL));
    } else if (!strcmp(what, "fold")) {
      struct {
        uint64_t count;
        CUdeviceptr x, y;
        uint32_t k, unused;
      } p = {n[6], at(n[1], n[2]), at(n[3], n[4]), n[5], 0};
      void *parameters[] = {&p};
      launch("fold", n[7], stream, parameters, &p, sizeof p);
    } else if (!strcmp(what, "tally")) {
      // Stream, buffer, word, words, and which of two modules.
      CUdeviceptr y = at(n[1], n[2]);
      void *parameters[] = {&y, &n[3]};
      NEED(cuLaunchKernel(fake_kernel(n[4] ? "tally'" : "tally"), 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
    } else if (!strcmp(what, "total")) {
      // Sets the variable of one module. Its address is asked for in one of two ways.
      CUfunction of = fake_kernel(n[0] ? "tally'" : "tally");
      CUdeviceptr variable = fake_variable(of, "total");
      size_t bytes = 4;
      if (!n[2]) NEED(cuModuleGetGlobal_v2(&variable, &bytes, of, "total"));
      NEED(cuMemcpyHtoD_v2(variable, &n[1], bytes));
    } else if (!strcmp(what, "spread")) {
      // Shared memory, a cluster, and whether the launch is cooperative.
      CUfunction kernel = fake_kernel("spread");
      CUlaunchAttribute attributes[] = {{4, 0, {n[3], n[4], 1}}, {8, 0, {1}}, {2, 0, {n[5]}}};
      CUlaunchConfig config = {{2, 3, 4}, {5, 6, 7}, n[2], stream, attributes, 3};
      CUdeviceptr y = at(n[1], 0);
      void *parameters[] = {&y};
      NEED(cuFuncSetAttribute(kernel, 8, (int)n[2]));
      NEED(cuLaunchKernelEx(&config, kernel, parameters, NULL));
    } else if (!strcmp(what, "write")) {
      size_t bytes = 4 * (size_t)n[3];
      if (n[5]) NEED(cuMemcpyHtoD_v2(at(n[1], n[2]), content(n[4], n[3]), bytes));
      else NEED(cuMemcpyHtoDAsync_v2(at(n[1], n[2]), content(n[4], n[3]), bytes, stream));
    } else if (!strcmp(what, "read")) {
      uint32_t *words = malloc(4 * (size_t)n[3]);
      if (n[4]) NEED(cuMemcpyDtoH_v2(words, at(n[1], n[2]), 4 * (size_t)n[3]));
      else {
        NEED(cuMemcpyDtoHAsync_v2(words, at(n[1], n[2]), 4 * (size_t)n[3], stream));
        NEED(cuStreamSynchronize(stream));
      }
      print(words, n[3]);
      free(words);
    } else if (!strcmp(what, "copy")) {
      size_t bytes = 4 * (size_t)n[5];
      if (n[6]) NEED(cuMemcpyAsync(at(n[1], n[2]), at(n[3], n[4]), bytes, stream));
      else NEED(cuMemcpyDtoDAsync_v2(at(n[1], n[2]), at(n[3], n[4]), bytes, stream));
    } else if (!strcmp(what, "fill")) NEED(cuMemsetD32Async(at(n[1], n[2]), n[3], n[4], stream));
    else if (!strcmp(what, "link")) {
      // Writes an address in one buffer as content of another.
      CUdeviceptr *link = malloc(sizeof *link);
      *link = at(n[3], n[4]);
      NEED(cuMemcpyHtoD_v2(at(n[1], n[2]), link, sizeof *link));
    } else if (!strcmp(what, "box")) {
      // Destination, source, width, rows. The rows of both are 64 words apart, and the box begins in the
      // second row.
      CUDA_MEMCPY2D copy = {4, 1, 2, NULL, buffers[n[2]], NULL, 256, 8, 1, 2, NULL, buffers[n[1]], NULL, 256, 4 * (size_t)n[3], n[4]};
      NEED(cuMemcpy2DAsync_v2(&copy, stream));
    } else if (!strcmp(what, "record")) {
      if (!events[n[1]]) NEED(cuEventCreate(&events[n[1]], 0));
      NEED(cuEventRecord(events[n[1]], stream));
    } else if (!strcmp(what, "wait")) NEED(cuStreamWaitEvent(stream, events[n[1]], 0));
    else if (!strcmp(what, "sync")) NEED(cuStreamSynchronize(stream));
    else if (!strcmp(what, "syncall")) NEED(cuCtxSynchronize());
    else if (!strcmp(what, "gate")) NEED(cuLaunchHostFunc(stream, gate, NULL));
    else if (!strcmp(what, "open")) is_open = 1;
    // Gives snapshots time to be recorded.
    else if (!strcmp(what, "rest")) usleep(300000);
    else if (!strcmp(what, "leave")) exit(0);
    else if (!strcmp(what, "die")) kill(getpid(), SIGKILL);
    else if (!strcmp(what, "map")) NEED(cuMemMap(buffers[n[0]], 4 * (size_t)n[1], 0, 1, 0));
    else if (!strcmp(what, "access")) {
      CUmemAccessDesc description = {1, 0, 3};
      NEED(cuMemSetAccess(buffers[n[0]], 4 * (size_t)n[1], &description, 1));
    } else if (!strcmp(what, "capture")) NEED(cuStreamBeginCapture(stream, 0));
    else if (!strcmp(what, "captured")) NEED(cuStreamEndCapture(stream, &graphs[n[1]]));
    else if (!strcmp(what, "graph")) NEED(cuGraphCreate(&graphs[n[0]], 0));
    else if (!strcmp(what, "make")) NEED(cuGraphInstantiateWithFlags(&execs[n[0]], graphs[n[1]], 0));
    else if (!strcmp(what, "update")) NEED(cuGraphExecUpdate_v2(execs[n[0]], graphs[n[1]], NULL));
    else if (!strcmp(what, "destroy")) NEED(cuGraphExecDestroy(execs[n[0]]));
    else if (!strcmp(what, "child")) {
      CUgraphNode child;
      NEED(cuGraphAddChildGraphNode(&child, graphs[n[0]], NULL, 0, graphs[n[1]]));
    } else if (!strcmp(what, "run")) NEED(cuGraphLaunch(execs[n[1]], stream));
    else if (!strcmp(what, "node") || !strcmp(what, "set")) {
      // A graph node, or one of an executable graph. Parameters: kind, number, buffer, word, k, words of
      // `put`.
      CUdeviceptr y = at(n[2], n[3]);
      void *parameters[] = {&y, &n[4], &n[5]};
      CUDA_KERNEL_NODE_PARAMS params = {NULL, {2, 1, 1}, {32, 1, 1}, 0, parameters, NULL, fake_kernel("put"), NULL};
      if (what[0] == 'n') NEED(cuGraphAddKernelNode_v2(&nodes[n[1]], graphs[n[0]], NULL, 0, &params));
      else NEED(cuGraphExecKernelNodeSetParams_v2(execs[n[0]], nodes[n[1]], &params));
    } else if (!strcmp(what, "pair")) {
      // Two threads launch into one stream, and the first call takes long.
      pthread_t other;
      pthread_create(&other, NULL, slowly, n);
      usleep(100000);
      CUdeviceptr y = buffers[n[1]];
      void *parameters[] = {&y, &n[2], &n[3]};
      NEED(cuLaunchKernel(fake_kernel("put"), 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
      pthread_join(other, NULL);
    } else if (!strcmp(what, "refused")) {
      void *parameters[] = {&buffers[0], &n[1], &n[1]};
      printf("%d\n", cuLaunchKernel(fake_kernel("put"), 0, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    } else need(1, line);
  }
  NEED(cuCtxSynchronize());
  return 0;
}
