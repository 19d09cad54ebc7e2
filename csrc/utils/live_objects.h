// Objects alive by kind, for leak checks: free lists hide them from the allocator's own counts.
#pragma once

#include <cstdint>

namespace torchlite {

struct LiveObjects {
  int64_t storages = 0;
  int64_t tensors = 0;
  int64_t variables = 0;
  int64_t functions = 0;
};

inline LiveObjects live;  // changed with the GIL held

}  // namespace torchlite
