// A launch that the host refuses is an error, as on a device.
#pragma once

#include <c10/util/Exception.h>
#include <cuda_runtime.h>

#define C10_CUDA_CHECK(expression)                                                           \
  do {                                                                                       \
    const cudaError_t error = (expression);                                                  \
    TORCH_CHECK(error == cudaSuccess, "CUDA on the host: error ", static_cast<int>(error)); \
  } while (0)
