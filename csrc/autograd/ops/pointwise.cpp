// The pointwise family: arithmetic, functions of one number, activations, comparisons, copies, and several as one.
#include "autograd/ops/elementwise.h"

namespace torchlite {

std::vector<Row> fused_rows();

std::span<const Row> pointwise_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (std::span<const Row> part : {arithmetic_rows(), math_rows(), activation_rows(), compare_rows(), copy_rows()})
      all.insert(all.end(), part.begin(), part.end());
    for (const Row& row : fused_rows()) all.push_back(row);
    return all;
  }();
  return rows;
}

}  // namespace torchlite
