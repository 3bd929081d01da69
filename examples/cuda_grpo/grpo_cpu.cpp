// The operator's schema, and its implementation for the CPU: one thread, so the same bits every time.
#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <vector>

#include "grpo_arguments.h"

namespace lossgate_example {
namespace {

template <typename T>
compute_t<T> loss_and_grad(const Batch<T>& batch, const Options& options, T* grad) {
  using C = compute_t<T>;
  std::vector<int64_t> lengths(batch.rows, 0);
  int64_t tokens = 0;
  for (int64_t row = 0; row < batch.rows; ++row) {
    for (int64_t column = 0; column < batch.columns; ++column)
      lengths[row] += batch.mask[row * batch.columns + column];
    tokens += lengths[row];
  }
  C loss = 0;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const C weight = static_cast<C>(token_weight(options, batch.rows, lengths[row], tokens));
    C row_loss = 0;
    for (int64_t column = 0; column < batch.columns; ++column) {
      const int64_t at = row * batch.columns + column;
      grad[at] = static_cast<T>(0);
      if (!batch.mask[at]) continue;
      const TokenLoss<C> token = token_loss(batch, row, column, options);
      row_loss += token.loss;
      grad[at] = static_cast<T>(weight * token.slope);
    }
    loss += weight * row_loss;
  }
  return loss;
}

LossAndGrad grpo_loss_cpu(const at::Tensor& logps, const std::optional<at::Tensor>& old_logps,
                          const std::optional<at::Tensor>& ref_logps, const at::Tensor& advantages,
                          const at::Tensor& mask, const std::string& loss_type, double beta, double epsilon_low,
                          double epsilon_high, std::optional<double> delta, int64_t max_completion_length) {
  const Arguments arguments =
      checked_arguments(logps, old_logps, ref_logps, advantages, mask, loss_type, beta, epsilon_low, epsilon_high,
                        delta, max_completion_length);
  at::Tensor loss = at::empty({}, logps.options().dtype(arguments.compute_type()));
  at::Tensor grad = at::empty(logps.sizes(), logps.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, logps.scalar_type(), "grpo_loss", [&] {
    *loss.mutable_data_ptr<compute_t<scalar_t>>() =
        loss_and_grad(arguments.batch<scalar_t>(), arguments.options, grad.mutable_data_ptr<scalar_t>());
  });
  return {loss, grad};
}

}  // namespace

TORCH_LIBRARY(lossgate_example, m) { m.def(kSchema); }

TORCH_LIBRARY_IMPL(lossgate_example, CPU, m) { m.impl("grpo_loss", grpo_loss_cpu); }

}  // namespace lossgate_example
