// Preloaded into Python by run.py: counts the allocations made on behalf of torchlite._C and fails the n-th.
//
// "On behalf of" means that a frame of the extension is on the C stack, so the interpreter's own allocations between
// two calls into it are left alone. Two paths are watched: the interpreter's MEM and OBJ allocators, wrapped by
// PyMem_SetAllocator, and operator new and the aligned allocators, interposed by symbol. Plain malloc is not: the
// interpreter's small-object allocator and the C++ run time call it below those, and would count twice.
//
// Driven through ctypes: nomem_install(), nomem_arm(n, every), nomem_disarm() -> allocations seen.

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>

namespace {

// As in CPython's pymem.h; the header is not included so that processes without Python may load this library.
struct PyMemAllocatorEx {
  void* ctx;
  void* (*malloc)(void*, size_t);
  void* (*calloc)(void*, size_t, size_t);
  void* (*realloc)(void*, void*, size_t);
  void (*free)(void*, void*);
};

PyMemAllocatorEx original[3];
uintptr_t text_begin, text_end;  // the extension's mapping
bool armed;
bool inside;      // a stack walk may itself allocate
bool persistent;  // fail every allocation from the n-th on, not the n-th alone
long fail_at, seen;

int find_extension(dl_phdr_info* info, size_t, void*) {
  if (!info->dlpi_name || !strstr(info->dlpi_name, "torchlite/_C")) return 0;
  text_begin = UINTPTR_MAX;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (begin < text_begin) text_begin = begin;
    if (begin + segment.p_memsz > text_end) text_end = begin + segment.p_memsz;
  }
  return 1;
}

bool called_by_extension() {
  void* frames[64];
  int depth = backtrace(frames, 64);
  for (int i = 2; i < depth; ++i) {
    auto address = reinterpret_cast<uintptr_t>(frames[i]);
    if (address >= text_begin && address < text_end) return true;
  }
  return false;
}

bool must_fail() {
  if (!armed || inside) return false;
  inside = true;
  bool counts = called_by_extension();
  inside = false;
  if (!counts) return false;
  ++seen;
  return seen == fail_at || (persistent && seen > fail_at);
}

PyMemAllocatorEx& next(void* ctx) { return *static_cast<PyMemAllocatorEx*>(ctx); }

void* hook_malloc(void* ctx, size_t size) { return must_fail() ? nullptr : next(ctx).malloc(next(ctx).ctx, size); }
void* hook_calloc(void* ctx, size_t count, size_t size) {
  return must_fail() ? nullptr : next(ctx).calloc(next(ctx).ctx, count, size);
}
void* hook_realloc(void* ctx, void* block, size_t size) {
  return must_fail() ? nullptr : next(ctx).realloc(next(ctx).ctx, block, size);
}
void hook_free(void* ctx, void* block) { next(ctx).free(next(ctx).ctx, block); }

void* allocate(size_t size) {
  if (must_fail()) return nullptr;
  return malloc(size ? size : 1);
}

void* allocate_aligned(size_t alignment, size_t size) {
  if (must_fail()) return nullptr;
  void* block = nullptr;
  static auto real = reinterpret_cast<int (*)(void**, size_t, size_t)>(dlsym(RTLD_NEXT, "posix_memalign"));
  return real(&block, alignment < sizeof(void*) ? sizeof(void*) : alignment, size ? size : 1) ? nullptr : block;
}

}  // namespace

void* operator new(size_t size) {
  if (void* block = allocate(size)) return block;
  throw std::bad_alloc();
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  if (void* block = allocate_aligned(static_cast<size_t>(alignment), size)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { free(block); }
void operator delete[](void* block) noexcept { free(block); }
void operator delete(void* block, size_t) noexcept { free(block); }
void operator delete[](void* block, size_t) noexcept { free(block); }
void operator delete(void* block, std::align_val_t) noexcept { free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { free(block); }

extern "C" {

void* aligned_alloc(size_t alignment, size_t size) {
  void* block = allocate_aligned(alignment, size);
  if (!block) errno = ENOMEM;
  return block;
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  void* block = allocate_aligned(alignment, size);
  if (!block) return ENOMEM;
  *out = block;
  return 0;
}

int nomem_install() {
  using Get = void (*)(int, PyMemAllocatorEx*);
  auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "PyMem_GetAllocator"));
  auto set = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "PyMem_SetAllocator"));
  if (!get || !set || !dl_iterate_phdr(find_extension, nullptr)) return -1;
  void* warm[2];
  backtrace(warm, 2);          // its first call loads libgcc
  for (int domain : {1, 2}) {  // PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ
    get(domain, &original[domain]);
    PyMemAllocatorEx hook{&original[domain], hook_malloc, hook_calloc, hook_realloc, hook_free};
    set(domain, &hook);
  }
  return 0;
}

void nomem_arm(long n, int every) {
  seen = 0;
  fail_at = n;
  persistent = every;
  armed = true;
}

long nomem_disarm() {
  armed = false;
  return seen;
}
}
