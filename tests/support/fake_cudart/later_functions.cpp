// What torch after 2.11 refers to and nothing of ours reaches: it is there, or torch would not load, and refuses. Declared
// by no header here, so that it does not matter what an older toolkit knows of it.
#define FAKE_CUDART_REFUSES(function)                                                      \
  extern "C" int function() {                                                              \
    constexpr int kNotSupported = 801; /* cudaErrorNotSupported */                         \
    return kNotSupported;                                                                  \
  }

FAKE_CUDART_REFUSES(cudaDeviceGetGraphMemAttribute)
FAKE_CUDART_REFUSES(cudaDeviceSetGraphMemAttribute)
FAKE_CUDART_REFUSES(cudaGraphAddNode)
FAKE_CUDART_REFUSES(cudaGraphConditionalHandleCreate)
FAKE_CUDART_REFUSES(cudaGraphRetainUserObject)
FAKE_CUDART_REFUSES(cudaKernelSetAttributeForDevice)
FAKE_CUDART_REFUSES(cudaLibraryGetGlobal)
FAKE_CUDART_REFUSES(cudaLibraryGetKernel)
FAKE_CUDART_REFUSES(cudaLibraryGetKernelCount)
FAKE_CUDART_REFUSES(cudaLibraryGetManaged)
FAKE_CUDART_REFUSES(cudaLibraryGetUnifiedFunction)
FAKE_CUDART_REFUSES(cudaLibraryLoadData)
FAKE_CUDART_REFUSES(cudaLibraryLoadFromFile)
FAKE_CUDART_REFUSES(cudaLibraryUnload)
FAKE_CUDART_REFUSES(cudaStreamBeginCaptureToGraph)
FAKE_CUDART_REFUSES(cudaStreamUpdateCaptureDependencies)
FAKE_CUDART_REFUSES(cudaUserObjectCreate)
FAKE_CUDART_REFUSES(cudaUserObjectRelease)
