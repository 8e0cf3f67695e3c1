// Launches in NVTX ranges: nvtx before|after|never. Ranges begin before or after the driver is initialized.
#include "fake.h"
#include "nvtx.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void need(int status, const char *what) {
  if (status) {
    fprintf(stderr, "%s: status %d\n", what, status);
    exit(1);
  }
}
#define NEED(call) need(call, #call)

static CUstream stream;
static CUfunction kernel;
static CUdeviceptr memory;

static void put(void **parameters) { **(uint32_t **)parameters[0] = *(uint32_t *)parameters[1]; }

static void launch(uint32_t value) {
  void *parameters[] = {&memory, &value};
  NEED(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

static void open_device(void) {
  const size_t offsets[] = {0, 8}, sizes[] = {8, 4};
  NEED(cuInit(0));
  NEED(cuStreamCreate(&stream, 0));
  kernel = fake_define("put", 2, offsets, sizes, 100, put);
  NEED(cuMemAlloc_v2(&memory, 64));
}

static void *of_thread(void *range) {
  launch(6);
  nvtxRangeEnd(*(uint64_t *)range);
  return NULL;
}

int main(int count, char **args) {
  if (count != 2) return 2;
  if (strcmp(args[1], "before")) open_device();
  nvtx_initialize();
  int recorded = nvtxRangePushA("outer") == 0;
  if (!strcmp(args[1], "before")) open_device();
  launch(1);
  need(nvtxRangePushW(L"in\u00f6ner") != (recorded ? 1 : -2), "a level");
  launch(2);
  void *domain = nvtxDomainCreateA("solver"), *name = nvtxDomainRegisterStringA(domain, "registered");
  struct nvtx_attributes attributes = {3, sizeof attributes, 9, 0, 0, 3, 0, {.number = 0.5}, 3, name};
  need(nvtxDomainRangePushEx(domain, &attributes) != (recorded ? 0 : -2), "a level of a domain");
  launch(3);
  nvtxDomainRangePop(domain);
  need(recorded && nvtxDomainRangePop(domain) >= 0, "a pop without a push");
  launch(4);
  nvtxRangePop();
  nvtxRangePop();
  launch(5);
  uint64_t range = nvtxRangeStartA("started");
  pthread_t thread;
  NEED(pthread_create(&thread, NULL, of_thread, &range));
  NEED(pthread_join(thread, NULL));
  NEED(cuStreamSynchronize(stream));
  nvtxRangePushA("never popped");
  printf("%u\n", *(uint32_t *)memory);
  return 0;
}
