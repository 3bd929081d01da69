// The one stream of the host: what is launched has run when the launch returns.
#pragma once

#include <cuda_runtime.h>

namespace c10::cuda {

struct CUDAStream {
  cudaStream_t stream() const { return nullptr; }
};

inline CUDAStream getCurrentCUDAStream() { return {}; }

}  // namespace c10::cuda
