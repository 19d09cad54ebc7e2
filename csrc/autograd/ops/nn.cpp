#include "autograd/ops/op.h"

namespace torchlite {

std::span<const Row> nn_rows() {
  static const std::vector<Row> rows = {};
  return rows;
}

}  // namespace torchlite
