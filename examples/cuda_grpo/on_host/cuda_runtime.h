// Enough of CUDA's runtime to run the kernels of this example on the CPU, one GPU thread at a time.
//
// The threads of a block are coroutines: each runs until __syncthreads or its end, and in every round they take
// their turns in another order. So a kernel that lacks a __syncthreads answers otherwise with another
// CUDA_ON_HOST_SEED.
// What this cannot show: that a device accepts the launch, how it rounds exp and expm1, and how fast it is.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(threads)
// One block runs at a time. As on a device, what the block before it left there is not cleared.
#define __shared__ static

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};

namespace cuda_on_host {

constexpr std::size_t kStackBytes = 128 * 1024;

class Block {
 public:
  Block(std::function<void()> kernel, unsigned threads) : kernel_(std::move(kernel)), threads_(threads) {}

  // One block, from its first thread's start to its last one's end.
  void run(std::mt19937& random) {
    running_ = this;
    for (Thread& thread : threads_) {
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.data();
      thread.context.uc_stack.ss_size = thread.stack.size();
      thread.context.uc_link = &scheduler_;
      thread.done = false;
      makecontext(&thread.context, &Block::enter, 0);
    }
    std::vector<unsigned> turns(threads_.size());
    std::iota(turns.begin(), turns.end(), 0U);
    for (std::size_t done = 0; done < threads_.size();) {
      std::shuffle(turns.begin(), turns.end(), random);
      for (unsigned number : turns) {
        threadIdx = dim3(number, 0, 0);
        current_ = &threads_[number];
        swapcontext(&scheduler_, &current_->context);
        done += current_->done;
      }
      if (done % threads_.size() != 0)
        throw std::logic_error("some threads of a block ended while others wait in __syncthreads");
    }
  }

  static void synchronise() { swapcontext(&running_->current_->context, &running_->scheduler_); }

 private:
  struct Thread {
    ucontext_t context{};
    std::vector<char> stack = std::vector<char>(kStackBytes);
    bool done = false;
  };

  static void enter() {
    running_->kernel_();
    running_->current_->done = true;
  }

  static inline Block* running_ = nullptr;
  std::function<void()> kernel_;
  std::vector<Thread> threads_;
  Thread* current_ = nullptr;
  ucontext_t scheduler_{};
};

inline unsigned seed() {
  const char* text = std::getenv("CUDA_ON_HOST_SEED");
  return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 0U;
}

}  // namespace cuda_on_host

inline void __syncthreads() { cuda_on_host::Block::synchronise(); }

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Arguments&... arguments) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  if (grid.x == 0 || grid.x > 0x7fffffffU || block.x == 0 || block.x > 1024) return cudaErrorInvalidConfiguration;
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::mt19937 random(cuda_on_host::seed());
  gridDim = grid;
  blockDim = block;
  cuda_on_host::Block threads([&] { kernel(static_cast<Parameters>(arguments)...); }, block.x);
  for (blockIdx = dim3(0, 0, 0); blockIdx.x < grid.x; ++blockIdx.x) threads.run(random);
  return cudaSuccess;
}
