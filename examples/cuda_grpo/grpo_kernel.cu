// Fused forward and backward: every log-probability is read once, the gradient is written in the same pass.
//
// Sums are trees over a block and a second pass over the blocks' results: no atomics, so the same bits every time.
// Compile without --use_fast_math: its exponential is less accurate than the bound of lossgate allows.
#include "grpo_kernel.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>

#ifndef GRPO_THREADS
#define GRPO_THREADS 256  // of a block: a power of two
#endif
#ifndef GRPO_MAX_BLOCKS
#define GRPO_MAX_BLOCKS 65536  // of a grid; with more rows, a block takes several
#endif

namespace lossgate_example {
namespace {

constexpr int kThreads = GRPO_THREADS;
static_assert(kThreads > 0 && kThreads <= 1024 && (kThreads & (kThreads - 1)) == 0);

// The sum of `value` over the block, for its thread 0 only; all of its threads must call it.
template <typename S>
__device__ S block_sum(S value) {
  __shared__ S partial[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  partial[thread] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) partial[thread] += partial[thread + half];
    __syncthreads();
  }
  // Only thread 0 writes here, so it reads its own sum, whether or not others are in the next call by now.
  return partial[0];
}

__global__ void __launch_bounds__(kThreads)
    count_tokens(const bool* mask, int64_t rows, int64_t columns, int64_t* lengths) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    int64_t count = 0;
    for (int64_t column = threadIdx.x; column < columns; column += kThreads) count += mask[row * columns + column];
    count = block_sum(count);
    if (threadIdx.x == 0) lengths[row] = count;
  }
}

// The sum of `count` values, by one block.
template <typename S>
__global__ void __launch_bounds__(kThreads) add_up(const S* values, int64_t count, S* sum) {
  S own = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) own += values[i];
  own = block_sum(own);
  if (threadIdx.x == 0) *sum = own;
}

// One block a completion.
template <typename T>
__global__ void __launch_bounds__(kThreads) losses_and_grad(Batch<T> batch, Options options, Answer<T> answer) {
  using C = compute_t<T>;
  for (int64_t row = blockIdx.x; row < batch.rows; row += gridDim.x) {
    const C weight = static_cast<C>(token_weight(options, batch.rows, answer.lengths[row], *answer.tokens));
    C row_loss = 0;
    for (int64_t column = threadIdx.x; column < batch.columns; column += kThreads) {
      const int64_t at = row * batch.columns + column;
      C slope = 0;
      if (batch.mask[at]) {
        const TokenLoss<C> token = token_loss(batch, row, column, options);
        row_loss += token.loss;
        slope = weight * token.slope;
      }
      answer.grad[at] = static_cast<T>(slope);
    }
    row_loss = block_sum(row_loss);
    if (threadIdx.x == 0) answer.row_losses[row] = weight * row_loss;
  }
}

}  // namespace

template <typename T>
cudaError_t launch_grpo_loss(const Batch<T>& batch, const Options& options, const Answer<T>& answer,
                             cudaStream_t stream) {
  cudaLaunchConfig_t one_block{};
  one_block.gridDim = dim3(1);
  one_block.blockDim = dim3(kThreads);
  one_block.stream = stream;
  cudaLaunchConfig_t by_row = one_block;
  // A grid of no blocks is an error; without rows, one block finds nothing to do.
  by_row.gridDim = dim3(static_cast<unsigned>(std::clamp<int64_t>(batch.rows, 1, GRPO_MAX_BLOCKS)));

  cudaError_t error =
      cudaLaunchKernelEx(&by_row, count_tokens, batch.mask, batch.rows, batch.columns, answer.lengths);
  if (error != cudaSuccess) return error;
  error = cudaLaunchKernelEx(&one_block, add_up<int64_t>, answer.lengths, batch.rows, answer.tokens);
  if (error != cudaSuccess) return error;
  error = cudaLaunchKernelEx(&by_row, losses_and_grad<T>, batch, options, answer);
  if (error != cudaSuccess) return error;
  return cudaLaunchKernelEx(&one_block, add_up<compute_t<T>>, answer.row_losses, batch.rows, answer.loss);
}

template cudaError_t launch_grpo_loss(const Batch<double>&, const Options&, const Answer<double>&, cudaStream_t);
template cudaError_t launch_grpo_loss(const Batch<float>&, const Options&, const Answer<float>&, cudaStream_t);
template cudaError_t launch_grpo_loss(const Batch<c10::Half>&, const Options&, const Answer<c10::Half>&,
                                      cudaStream_t);
template cudaError_t launch_grpo_loss(const Batch<c10::BFloat16>&, const Options&, const Answer<c10::BFloat16>&,
                                      cudaStream_t);

}  // namespace lossgate_example
