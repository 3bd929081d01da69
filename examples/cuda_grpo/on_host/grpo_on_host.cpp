// The CUDA operator, word for word, registered for the CPU: its kernels run on the host.
#include <torch/library.h>

#undef TORCH_LIBRARY_IMPL
#define TORCH_LIBRARY_IMPL(ns, key, m) _TORCH_LIBRARY_IMPL(ns, CPU, m, C10_UID)

// A block so small that a handful of tokens and rows takes every loop of the kernels more than once.
#define GRPO_THREADS 4
#define GRPO_MAX_BLOCKS 2

#include "../grpo_cuda.cpp"
#include "../grpo_kernel.cu"

namespace lossgate_example {

TORCH_LIBRARY(lossgate_example, m) { m.def(kSchema); }

}  // namespace lossgate_example
