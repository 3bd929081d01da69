// What grpo_kernel.cu offers to grpo_cuda.cpp: device pointers in, kernels on a stream.
#pragma once

#include <cuda_runtime.h>

#include "grpo_token.h"

namespace lossgate_example {

template <typename T>
struct Answer {
  compute_t<T>* loss;        // one number
  T* grad;                   // (rows, columns)
  int64_t* lengths;          // scratch, (rows,): unmasked tokens of each completion
  int64_t* tokens;           // scratch, one number: their sum
  compute_t<T>* row_losses;  // scratch, (rows,): what each completion adds to the loss
};

// Forward and backward of a batch, queued on `stream`. T is double, float, c10::Half or c10::BFloat16.
template <typename T>
cudaError_t launch_grpo_loss(const Batch<T>& batch, const Options& options, const Answer<T>& answer,
                             cudaStream_t stream);

}  // namespace lossgate_example
