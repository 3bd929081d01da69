// The operator for CUDA: allocates, launches grpo_kernel.cu on the current stream, waits for nothing.
// Built only against a torch that has CUDA.
#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "grpo_arguments.h"
#include "grpo_kernel.h"

namespace lossgate_example {
namespace {

LossAndGrad grpo_loss_cuda(const at::Tensor& logps, const std::optional<at::Tensor>& old_logps,
                           const std::optional<at::Tensor>& ref_logps, const at::Tensor& advantages,
                           const at::Tensor& mask, const std::string& loss_type, double beta, double epsilon_low,
                           double epsilon_high, std::optional<double> delta, int64_t max_completion_length) {
  const Arguments arguments =
      checked_arguments(logps, old_logps, ref_logps, advantages, mask, loss_type, beta, epsilon_low, epsilon_high,
                        delta, max_completion_length);
  // The device of logps is the current one until the end of this function.
  const c10::cuda::CUDAGuard guard(logps.device());
  const int64_t rows = logps.size(0);
  const at::TensorOptions numbers = logps.options().dtype(arguments.compute_type());
  at::Tensor loss = at::empty({}, numbers);
  at::Tensor grad = at::empty(logps.sizes(), logps.options());
  at::Tensor row_losses = at::empty({rows}, numbers);
  at::Tensor counts = at::empty({rows + 1}, logps.options().dtype(at::kLong));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, logps.scalar_type(), "grpo_loss", [&] {
    int64_t* lengths = counts.mutable_data_ptr<int64_t>();
    const Answer<scalar_t> answer{
        .loss = loss.mutable_data_ptr<compute_t<scalar_t>>(),
        .grad = grad.mutable_data_ptr<scalar_t>(),
        .lengths = lengths,
        .tokens = lengths + rows,
        .row_losses = row_losses.mutable_data_ptr<compute_t<scalar_t>>(),
    };
    C10_CUDA_CHECK(launch_grpo_loss(arguments.batch<scalar_t>(), arguments.options, answer,
                                    c10::cuda::getCurrentCUDAStream().stream()));
  });
  return {loss, grad};
}

}  // namespace

TORCH_LIBRARY_IMPL(lossgate_example, CUDA, m) { m.impl("grpo_loss", grpo_loss_cuda); }

}  // namespace lossgate_example
