# a stand-in for DeepSpeed's script
