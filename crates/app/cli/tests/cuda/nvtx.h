// What NVIDIA's header does for a program that uses NVTX: it loads the library that NVTX_INJECTION64_PATH names, which replaces
// its functions. Names and numbers are those of NVTX version 3.
#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <wchar.h>

struct nvtx_attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  union {
    uint64_t integer;
    double number;
    float single;
  } payload;
  int32_t message_type;
  const void *message;
};

typedef void (*nvtx_function)(void);
static nvtx_function nvtx_core[16], nvtx_domains[16], *nvtx_core_slots[16], *nvtx_domain_slots[16];

static int nvtx_functions(int module, nvtx_function ***table, unsigned *count) {
  if (module != 1 && module != 5) return 0;
  *table = module == 1 ? nvtx_core_slots : nvtx_domain_slots, *count = 16;
  return 1;
}
static const struct {
  size_t size;
  int (*functions)(int, nvtx_function ***, unsigned *);
} nvtx_callbacks = {sizeof nvtx_callbacks, nvtx_functions};
static const void *nvtx_export_table(uint32_t number) { return number == 1 ? &nvtx_callbacks : NULL; }

static void nvtx_initialize(void) {
  for (int at = 0; at < 16; at++) nvtx_core_slots[at] = &nvtx_core[at], nvtx_domain_slots[at] = &nvtx_domains[at];
  const char *path = getenv("NVTX_INJECTION64_PATH");
  void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
  int (*start)(const void *(*)(uint32_t)) = library ? (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2") : NULL;
  if (start) start(nvtx_export_table);
}

// A function that nothing replaced does nothing.
#define NVTX_CALL(table, number, type, none, ...) (table[number] ? ((type)table[number])(__VA_ARGS__) : (none))
static inline int nvtxRangePushA(const char *text) { return NVTX_CALL(nvtx_core, 9, int (*)(const char *), -2, text); }
static inline int nvtxRangePushW(const wchar_t *text) { return NVTX_CALL(nvtx_core, 10, int (*)(const wchar_t *), -2, text); }
static inline int nvtxRangePushEx(const struct nvtx_attributes *a) { return NVTX_CALL(nvtx_core, 8, int (*)(const struct nvtx_attributes *), -2, a); }
static inline int nvtxRangePop(void) { return NVTX_CALL(nvtx_core, 11, int (*)(void), -2); }
static inline uint64_t nvtxRangeStartA(const char *text) { return NVTX_CALL(nvtx_core, 5, uint64_t (*)(const char *), 0, text); }
static inline void nvtxRangeEnd(uint64_t range) { if (nvtx_core[7]) ((void (*)(uint64_t))nvtx_core[7])(range); }
static inline void *nvtxDomainCreateA(const char *name) { return NVTX_CALL(nvtx_domains, 12, void *(*)(const char *), NULL, name); }
static inline void *nvtxDomainRegisterStringA(void *domain, const char *text) { return NVTX_CALL(nvtx_domains, 10, void *(*)(void *, const char *), NULL, domain, text); }
static inline int nvtxDomainRangePushEx(void *domain, const struct nvtx_attributes *a) { return NVTX_CALL(nvtx_domains, 4, int (*)(void *, const struct nvtx_attributes *), -2, domain, a); }
static inline int nvtxDomainRangePop(void *domain) { return NVTX_CALL(nvtx_domains, 5, int (*)(void *), -2, domain); }
